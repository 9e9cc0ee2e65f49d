//go:build linux && (amd64 || arm64)

package engine

import (
	"cmp"
	"math"
	"slices"
	"sync"

	"github.com/nicless/nicless/internal/board"
	"github.com/nicless/nicless/internal/control"
)

// A bulletin is what the clients of this device and of linked ones announce. Requests and links
// use it, on goroutines of their own. The engine's thread only sends the events.
type bulletin struct {
	mu      sync.Mutex
	last    uint32   // number that the last client got
	own     []posted // of this device, sorted by client
	linked  []posted // of other devices, sorted by device and client
	sources []source // what links have said, in the order in which they have said something first
	waiting map[*client]*reader
	changed func() // own has changed; nil: nobody wants to know
	users   users
}

// A reader is a client that has read the list.
type reader struct {
	user  uint32 // whose announcements it reads, beside those for everybody
	waits bool   // nothing that it may read has changed since
}

// A posted announcement is one in a list.
type posted struct {
	control.Announcement
	to uint32  // whose clients may read it: a user, or board.Everybody
	by *client // nil: of another device
}

// A source is what one link says of one device.
type source struct {
	link any
	guid uint64
	list []board.Entry
}

// maxAnnounced is how many clients of a device can announce something at once.
const maxAnnounced = 4096

func (p posted) compare(to control.AnnouncementPlace) int {
	return cmp.Or(cmp.Compare(p.Device, to.Device), cmp.Compare(p.Client, to.Client))
}

// post replaces what a client announces, and to whom, and returns the clients that are to be told.
func (b *bulletin) post(c *client, to uint32, value string) (told []*client, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	i := slices.IndexFunc(b.own, func(p posted) bool { return p.by == c })
	var before, after posted
	switch {
	case i >= 0 && value != "" && b.own[i].Value == value && b.own[i].to == to, i < 0 && value == "":
		return nil, nil
	case i >= 0:
		before = b.own[i]
		if value == "" {
			b.own = slices.Delete(b.own, i, i+1)
			break
		}
		b.own[i].Value, b.own[i].to = value, to
		after = b.own[i]
	default:
		if err := b.number(c); err != nil {
			return nil, err
		}
		after = posted{by: c, to: to}
		after.Device, after.Client, after.Value = c.e.guid, c.posted, value
		i, _ = slices.BinarySearchFunc(b.own, after.AnnouncementPlace, posted.compare)
		b.own = slices.Insert(b.own, i, after)
	}
	if b.changed != nil {
		b.changed()
	}
	var changed []posted
	for _, p := range []posted{before, after} {
		if p.by != nil {
			changed = append(changed, p)
		}
	}
	return b.told(c, changed), nil
}

// number makes sure that a client that begins to announce has a number.
func (b *bulletin) number(c *client) error {
	switch {
	case len(b.own) >= maxAnnounced:
		return control.Errorf(control.CodeLimit, "%d clients announce something already; that is the most", len(b.own))
	case c.posted != 0:
		return nil // it has announced before
	case b.last == math.MaxUint32:
		return control.Errorf(control.CodeLimit, "%d clients have announced something; there are no more numbers", b.last)
	}
	b.last++
	c.posted = b.last
	return nil
}

// told returns the clients that are to be told of a change, all but one, and notes that they are. A client
// is not told of what it may not read.
func (b *bulletin) told(but *client, changed []posted) (told []*client) {
	for c, r := range b.waiting {
		if r.waits && c != but && slices.ContainsFunc(changed, func(p posted) bool { return p.isFor(r.user) }) {
			r.waits = false
			told = append(told, c)
		}
	}
	return told
}

// tellAnnouncements sends events, on the engine's thread, because that opens and closes the
// sockets. Other work has its turn after each portion. A client whose socket is full is told of the
// next change.
func (e *device) tellAnnouncements(told []*client) {
	for some := range slices.Chunk(told, portion) {
		var missed []*client
		e.doWith(noWork, func() {
			for _, c := range some {
				if !c.send(&control.Event{Kind: control.EventAnnouncements}) {
					missed = append(missed, c)
				}
			}
		})
		e.bulletin.tellLater(missed)
	}
}

// tellLater makes the next change be told to clients that have not been told of one.
func (b *bulletin) tellLater(missed []*client) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, c := range missed {
		if r := b.waiting[c]; r != nil {
			r.waits = true
		}
	}
}

// nextAnnouncement returns the first announcement of another client after a place that this one may read.
func (c *caller) nextAnnouncement(payload []byte) (control.Message, error) {
	var m control.AnnouncementPlace
	if err := control.Parse(control.OpNextAnnouncement, payload, &m); err != nil {
		return nil, control.Errorf(control.CodeInvalid, "%v", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, errClosed
	}
	return c.e.bulletin.next(c.client, m), nil
}

func (b *bulletin) next(c *client, after control.AnnouncementPlace) *control.Announcement {
	b.mu.Lock()
	defer b.mu.Unlock()
	user := b.users.of(c.uid)
	if after == (control.AnnouncementPlace{}) {
		if b.waiting == nil {
			b.waiting = make(map[*client]*reader)
		}
		b.waiting[c] = &reader{user: user, waits: true}
	}
	var first *posted
	for _, list := range [2][]posted{b.own, b.linked} {
		i, found := slices.BinarySearchFunc(list, after, posted.compare)
		if found {
			i++
		}
		for i < len(list) && (list[i].by == c || !list[i].isFor(user)) {
			i++
		}
		if i < len(list) && (first == nil || list[i].compare(first.AnnouncementPlace) < 0) {
			first = &list[i]
		}
	}
	if first == nil {
		return &control.Announcement{}
	}
	a := first.Announcement
	return &a
}

// leaveBoard withdraws what a client announces. The client is told nothing any more.
func (e *device) leaveBoard(c *client) {
	e.bulletin.mu.Lock()
	delete(e.bulletin.waiting, c)
	e.bulletin.mu.Unlock()
	told, _ := e.bulletin.post(c, board.Everybody, "") // nothing new is made, so nothing is refused
	e.tellAnnouncements(told)
}

// Announced returns what clients of this device announce.
func (d nicDevice) Announced() []board.Entry {
	b := &d.bulletin
	b.mu.Lock()
	defer b.mu.Unlock()
	list := make([]board.Entry, len(b.own))
	for i, p := range b.own {
		list[i] = board.Entry{Client: p.Client, User: p.to, Value: p.Value}
	}
	return list
}

// OnAnnounce names a function that is called when the result of Announced has changed.
func (d nicDevice) OnAnnounce(f func()) {
	d.bulletin.mu.Lock()
	defer d.bulletin.mu.Unlock()
	d.bulletin.changed = f
}

// SetAnnounced says what the clients of another device announce.
func (d nicDevice) SetAnnounced(link any, guid uint64, list []board.Entry) {
	if guid != d.guid {
		d.tellAnnouncements(d.bulletin.set(link, guid, list))
	}
}

// set replaces what a link says of a device, and returns the clients that are to be told.
func (b *bulletin) set(link any, guid uint64, list []board.Entry) (told []*client) {
	b.mu.Lock()
	defer b.mu.Unlock()
	i := slices.IndexFunc(b.sources, func(s source) bool { return s.link == link && s.guid == guid })
	switch {
	case i < 0 && len(list) == 0:
		return nil
	case i < 0:
		b.sources = append(b.sources, source{link, guid, list})
	case len(list) == 0:
		b.sources = slices.Delete(b.sources, i, i+1)
	default:
		b.sources[i].list = list
	}
	before := b.linked
	b.linked = merge(b.sources)
	return b.told(nil, difference(before, b.linked))
}

// merge returns the announcements of all sources, sorted. If several links lead to a device, the
// first that has said something of it counts.
func merge(sources []source) (all []posted) {
	seen := make(map[uint64]bool)
	for _, s := range sources {
		if seen[s.guid] {
			continue
		}
		seen[s.guid] = true
		for _, e := range s.list {
			p := posted{to: e.User}
			p.Device, p.Client, p.Value = s.guid, e.Client, e.Value
			all = append(all, p)
		}
	}
	slices.SortFunc(all, func(x, y posted) int { return x.compare(y.AnnouncementPlace) })
	return all
}
