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
	last    uint32           // number that the last client got
	own     []posted         // of this device, sorted by client
	linked  []posted         // of other devices, sorted by device and client
	sources []source         // what links have said, in the order in which they have said something first
	waiting map[*client]bool // clients that have read the list. True: nothing has changed since
	changed func()           // own has changed; nil: nobody wants to know
}

// A posted announcement is one in a list.
type posted struct {
	control.Announcement
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

// announce replaces what this client announces.
func (c *client) announce(payload []byte) (control.Message, error) {
	var m control.Announce
	if err := control.Parse(control.OpAnnounce, payload, &m); err != nil {
		return nil, control.Errorf(control.CodeInvalid, "%v", err)
	}
	if len(m.Value) > control.MaxAnnouncement {
		return nil, control.Errorf(control.CodeInvalid, "announcement of %d bytes; at most %d are possible", len(m.Value), control.MaxAnnouncement)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, errClosed
	}
	told, err := c.e.bulletin.post(c, m.Value)
	if err != nil {
		return nil, err
	}
	c.e.tellAnnouncements(told)
	return &control.Empty{}, nil
}

// post replaces what a client announces, and returns the clients that are to be told.
func (b *bulletin) post(c *client, value string) (told []*client, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	i := slices.IndexFunc(b.own, func(p posted) bool { return p.by == c })
	switch {
	case i >= 0 && b.own[i].Value == value, i < 0 && value == "":
		return nil, nil
	case value == "":
		b.own = slices.Delete(b.own, i, i+1)
	case i >= 0:
		b.own[i].Value = value
	default:
		if err := b.number(c); err != nil {
			return nil, err
		}
		p := posted{by: c}
		p.Device, p.Client, p.Value = c.e.guid, c.posted, value
		i, _ = slices.BinarySearchFunc(b.own, p.AnnouncementPlace, posted.compare)
		b.own = slices.Insert(b.own, i, p)
	}
	if b.changed != nil {
		b.changed()
	}
	return b.told(c), nil
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

// told returns the clients that are to be told of a change, all but one, and notes that they are.
func (b *bulletin) told(but *client) (told []*client) {
	for c, waits := range b.waiting {
		if waits && c != but {
			b.waiting[c] = false
			told = append(told, c)
		}
	}
	return told
}

// tellAnnouncements sends events, on the engine's thread, because that opens and closes the
// sockets. Other work has its turn after each portion. A client whose socket is full is told of the
// next change.
func (e *Engine) tellAnnouncements(told []*client) {
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
		if _, reads := b.waiting[c]; reads {
			b.waiting[c] = true
		}
	}
}

// nextAnnouncement returns the first announcement of another client after a place.
func (c *client) nextAnnouncement(payload []byte) (control.Message, error) {
	var m control.AnnouncementPlace
	if err := control.Parse(control.OpNextAnnouncement, payload, &m); err != nil {
		return nil, control.Errorf(control.CodeInvalid, "%v", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, errClosed
	}
	return c.e.bulletin.next(c, m), nil
}

func (b *bulletin) next(c *client, after control.AnnouncementPlace) *control.Announcement {
	b.mu.Lock()
	defer b.mu.Unlock()
	if after == (control.AnnouncementPlace{}) {
		if b.waiting == nil {
			b.waiting = make(map[*client]bool)
		}
		b.waiting[c] = true
	}
	var first *posted
	for _, list := range [2][]posted{b.own, b.linked} {
		i, found := slices.BinarySearchFunc(list, after, posted.compare)
		if found {
			i++
		}
		if i < len(list) && list[i].by == c {
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
func (e *Engine) leaveBoard(c *client) {
	e.bulletin.mu.Lock()
	delete(e.bulletin.waiting, c)
	e.bulletin.mu.Unlock()
	told, _ := e.bulletin.post(c, "") // nothing new is made, so nothing is refused
	e.tellAnnouncements(told)
}

// Announced returns what clients of this device announce.
func (d nicDevice) Announced() []board.Entry {
	b := &d.bulletin
	b.mu.Lock()
	defer b.mu.Unlock()
	list := make([]board.Entry, len(b.own))
	for i, p := range b.own {
		list[i] = board.Entry{Client: p.Client, Value: p.Value}
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
	if slices.Equal(before, b.linked) {
		return nil
	}
	return b.told(nil)
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
			p := posted{}
			p.Device, p.Client, p.Value = s.guid, e.Client, e.Value
			all = append(all, p)
		}
	}
	slices.SortFunc(all, func(x, y posted) int { return x.compare(y.AnnouncementPlace) })
	return all
}
