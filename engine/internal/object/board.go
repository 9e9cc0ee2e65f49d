//go:build linux && (amd64 || arm64)

package object

import (
	"cmp"
	"math"
	"slices"

	"github.com/nicless/nicless/engine/internal/mailbox"
	"github.com/nicless/nicless/internal/board"
	"github.com/nicless/nicless/internal/control"
)

// MaxAnnounced is how many clients of a device can announce something at once.
const MaxAnnounced = 4096

func (p posted) compare(to control.AnnouncementPlace) int {
	return cmp.Or(cmp.Compare(p.Device, to.Device), cmp.Compare(p.Client, to.Client))
}

// Post replaces what a client announces, and to whom, and returns the clients that are to be notified of it.
func (b *bulletin) Post(c *Client, to uint32, value string) (told []*Client, err error) {
	b.Mu.Lock()
	defer b.Mu.Unlock()
	i := slices.IndexFunc(b.Own, func(p posted) bool { return p.by == c })
	var before, after posted
	switch {
	case i >= 0 && value != "" && b.Own[i].Value == value && b.Own[i].To == to, i < 0 && value == "":
		return nil, nil
	case i >= 0:
		before = b.Own[i]
		if value == "" {
			b.Own = slices.Delete(b.Own, i, i+1)
			break
		}
		b.Own[i].Value, b.Own[i].To = value, to
		after = b.Own[i]
	default:
		if err := b.number(c); err != nil {
			return nil, err
		}
		after = posted{by: c, To: to}
		after.Device, after.Client, after.Value = c.Device.GUID, c.posted, value
		i, _ = slices.BinarySearchFunc(b.Own, after.AnnouncementPlace, posted.compare)
		b.Own = slices.Insert(b.Own, i, after)
	}
	if b.Changed != nil {
		b.Changed()
	}
	var changed []posted
	for _, p := range []posted{before, after} {
		if p.by != nil {
			changed = append(changed, p)
		}
	}
	return b.takeWaiting(c, changed), nil
}

// number makes sure that a client that begins to announce has a number.
func (b *bulletin) number(c *Client) error {
	switch {
	case len(b.Own) >= MaxAnnounced:
		return control.Errorf(control.CodeLimit, "%d clients announce something already; that is the most", len(b.Own))
	case c.posted != 0:
		return nil // it has announced before
	case b.Last == math.MaxUint32:
		return control.Errorf(control.CodeLimit, "%d clients have announced something; there are no more numbers", b.Last)
	}
	b.Last++
	c.posted = b.Last
	return nil
}

// takeWaiting returns the clients, without the client except, that wait for a change and may read one of the
// announcements that have changed. The clients are to be notified, and wait no longer.
func (b *bulletin) takeWaiting(except *Client, changed []posted) (told []*Client) {
	for c, r := range b.Waiting {
		if !r.waits || c == except {
			continue
		}
		if slices.ContainsFunc(changed, func(p posted) bool { return p.isFor(r.user) }) {
			r.waits = false
			told = append(told, c)
		}
	}
	return told
}

// NotifyAnnouncements sends events, on the engine's thread, because that opens and closes the
// sockets. Other work has its turn after each portion. A client whose socket is full is notified of
// the next change.
func (e *Device) NotifyAnnouncements(told []*Client) {
	for some := range slices.Chunk(told, Portion) {
		var missed []*Client
		e.DoWith(mailbox.NoWork, func() {
			for _, c := range some {
				if !c.Send(&control.Event{Kind: control.EventAnnouncements}) {
					missed = append(missed, c)
				}
			}
		})
		e.Bulletin.notifyLater(missed)
	}
}

// notifyLater lets clients that have missed a notice be notified of the next change.
func (b *bulletin) notifyLater(missed []*Client) {
	b.Mu.Lock()
	defer b.Mu.Unlock()
	for _, c := range missed {
		if r := b.Waiting[c]; r != nil {
			r.waits = true
		}
	}
}

// Next returns the first announcement of other clients after a place that c may read, or an empty one. If c
// reads from the beginning, it is notified of the next change.
func (b *bulletin) Next(c *Client, after control.AnnouncementPlace) *control.Announcement {
	b.Mu.Lock()
	defer b.Mu.Unlock()
	user := b.Users.Of(c.UID)
	if after == (control.AnnouncementPlace{}) {
		if b.Waiting == nil {
			b.Waiting = make(map[*Client]*reader)
		}
		b.Waiting[c] = &reader{user: user, waits: true}
	}
	var first *posted
	for _, list := range [2][]posted{b.Own, b.linked} {
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

// LeaveBoard withdraws what a client announces. The client is not notified any more.
func (e *Device) LeaveBoard(c *Client) {
	e.Bulletin.Mu.Lock()
	delete(e.Bulletin.Waiting, c)
	e.Bulletin.Mu.Unlock()
	told, _ := e.Bulletin.Post(c, board.AllUsers, "") // a withdrawal is never refused
	e.NotifyAnnouncements(told)
}

// Set replaces what a link says of a device, and returns the clients that are to be notified of it.
func (b *bulletin) Set(link any, guid uint64, list []board.Entry) (told []*Client) {
	b.Mu.Lock()
	defer b.Mu.Unlock()
	i := slices.IndexFunc(b.Sources, func(s source) bool { return s.link == link && s.guid == guid })
	switch {
	case i < 0 && len(list) == 0:
		return nil
	case i < 0:
		b.Sources = append(b.Sources, source{link, guid, list})
	case len(list) == 0:
		b.Sources = slices.Delete(b.Sources, i, i+1)
	default:
		b.Sources[i].list = list
	}
	before := b.linked
	b.linked = merge(b.Sources)
	return b.takeWaiting(nil, difference(before, b.linked))
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
			p := posted{To: e.User}
			p.Device, p.Client, p.Value = s.guid, e.Client, e.Value
			all = append(all, p)
		}
	}
	slices.SortFunc(all, func(x, y posted) int { return x.compare(y.AnnouncementPlace) })
	return all
}

// An announcement may contain keys of memory, and the numbers of a connection. So it is for clients of one
// user, if its client does not say that it is for all.

// isFor reports whether clients of a user may read an announcement. The user board.AllUsers stands for no
// user: it reads what all users may read.
func (p *posted) isFor(user uint32) bool { return p.To == board.AllUsers || p.To == user }

// Of returns the user of a client: board.AllUsers if the client has none, because its uid stands for all
// users that have none here.
func (u users) Of(uid uint32) uint32 {
	if _, ok := u.space.Outside(uid); !ok {
		return board.AllUsers
	}
	if user, ok := u.space.Outside(u.Payer(uid)); ok {
		return user
	}
	return board.AllUsers
}

// difference returns what is in one of two sorted lists only.
func difference(a, b []posted) (only []posted) {
	for len(a) > 0 || len(b) > 0 {
		switch {
		case len(b) == 0 || len(a) > 0 && a[0].compare(b[0].AnnouncementPlace) < 0:
			only, a = append(only, a[0]), a[1:]
		case len(a) == 0 || a[0].compare(b[0].AnnouncementPlace) > 0:
			only, b = append(only, b[0]), b[1:]
		default:
			if a[0] != b[0] {
				only = append(only, a[0], b[0])
			}
			a, b = a[1:], b[1:]
		}
	}
	return only
}
