//go:build linux && (amd64 || arm64)

package bulletin

import (
	"cmp"
	"math"
	"slices"
	"sync"

	"github.com/nicless/nicless/internal/board"
	"github.com/nicless/nicless/internal/control"
)

// MaxAnnounced is how many clients of a device can announce something at once.
const MaxAnnounced = 4096

// A Bulletin is what the clients of a device and of linked ones announce. C stands for a client of the
// device.
type Bulletin[C comparable] struct {
	Users Users

	mu sync.Mutex
	// places are those of clients that have announced something and have not left.
	places map[C]control.AnnouncementPlace

	last    uint32   // the highest number that a client has got
	own     []posted // announcements of this device, sorted by client
	linked  []posted // announcements of other devices, sorted by device and client
	sources []source // what links have said, in the order in which they have said something first
	readers map[C]*reader
	changed func() // called when own has changed; nil: no link asks for the call
	history history
}

// A posted announcement is one in a list.
//
// An announcement may contain keys of memory, and the numbers of a connection. So it is for clients of one
// user, if its client does not say that it is for all.
type posted struct {
	control.Announcement
	to uint32 // the user whose clients may read the announcement, or board.AllUsers
}

// isFor reports whether clients of a user may read an announcement. The user board.AllUsers stands for no
// user: it reads what all users may read.
func (p *posted) isFor(user uint32) bool { return p.to == board.AllUsers || p.to == user }

func (p posted) compare(to control.AnnouncementPlace) int {
	return cmp.Or(cmp.Compare(p.Device, to.Device), cmp.Compare(p.Client, to.Client))
}

// Post replaces what a client of the device with this GUID announces, and to whom. It returns the clients
// that are to be notified of it.
func (b *Bulletin[C]) Post(c C, guid uint64, to uint32, value string) (notify []C, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	place := b.places[c]
	i, found := slices.BinarySearchFunc(b.own, place, posted.compare)
	var before, after []posted // what c announces: at most one each
	switch {
	case !found && value == "", found && b.own[i].Value == value && b.own[i].to == to:
		return nil, nil
	case found:
		before = []posted{b.own[i]}
	default:
		place, err = b.place(c, guid)
		if err != nil {
			return nil, err
		}
		i, _ = slices.BinarySearchFunc(b.own, place, posted.compare)
	}
	if value != "" {
		after = []posted{{control.Announcement{AnnouncementPlace: place, Value: value}, to}}
	}
	b.own = slices.Replace(b.own, i, i+len(before), after...)
	if b.changed != nil {
		b.changed()
	}
	return b.note(append(before, after...), c), nil
}

// place returns the place of a client of a device that begins to announce.
func (b *Bulletin[C]) place(c C, guid uint64) (p control.AnnouncementPlace, err error) {
	p, known := b.places[c]
	switch {
	case len(b.own) >= MaxAnnounced:
		return p, control.Errorf(control.CodeLimit, "%d clients announce something already; that is the most", len(b.own))
	case known:
		return p, nil // it has announced before
	case b.last == math.MaxUint32:
		return p, control.Errorf(control.CodeLimit, "%d clients have announced something; there are no more numbers", b.last)
	}
	b.last++
	if b.places == nil {
		b.places = make(map[C]control.AnnouncementPlace)
	}
	p = control.AnnouncementPlace{Device: guid, Client: b.last}
	b.places[c] = p
	return p, nil
}

// Leave withdraws what a client announces, and returns the clients that are to be notified of it. The client
// is not notified any more, and does not come back.
func (b *Bulletin[C]) Leave(c C) (notify []C) {
	notify, _ = b.Post(c, 0, board.AllUsers, "") // a withdrawal needs no new place, and is never refused
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.readers, c)
	delete(b.places, c)
	return notify
}

// Entries returns the announcements of this device's clients.
func (b *Bulletin[C]) Entries() []board.Entry {
	b.mu.Lock()
	defer b.mu.Unlock()
	list := make([]board.Entry, len(b.own))
	for i, p := range b.own {
		list[i] = board.Entry{Client: p.Client, User: p.to, Value: p.Value}
	}
	return list
}

// OnChange makes the bulletin call f when the result of Entries has changed, while it is locked.
func (b *Bulletin[C]) OnChange(f func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.changed = f
}
