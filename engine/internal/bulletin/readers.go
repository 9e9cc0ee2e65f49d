//go:build linux && (amd64 || arm64)

package bulletin

import (
	"slices"

	"github.com/nicless/nicless/internal/control"
)

// A reader is a client that has read the list.
type reader struct {
	user  uint32 // the user whose announcements the client reads, besides those for all users
	waits bool   // nothing that the client may read has changed since it has read the list
}

// note keeps what has changed, before and after, and returns the clients, without some, that are to be
// notified of it.
func (b *Bulletin[C]) note(changed []posted, without ...C) (notify []C) {
	for _, p := range changed {
		b.history.add(change{p.AnnouncementPlace, p.to})
	}
	return b.takeWaiting(changed, without...)
}

// takeWaiting returns the clients, without some, that wait for a change and may read one of the
// announcements that have changed. The clients are to be notified, and wait no longer.
func (b *Bulletin[C]) takeWaiting(changed []posted, without ...C) (notify []C) {
	for c, r := range b.readers {
		if !r.waits || slices.Contains(without, c) {
			continue
		}
		if slices.ContainsFunc(changed, func(p posted) bool { return p.isFor(r.user) }) {
			r.waits = false
			notify = append(notify, c)
		}
	}
	return notify
}

// NotifyLater lets clients that have missed a notice be notified of the next change.
func (b *Bulletin[C]) NotifyLater(missed []C) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, c := range missed {
		if r := b.readers[c]; r != nil {
			r.waits = true
		}
	}
}

// Next returns the first announcement of other clients after a place that c may read, or an empty one. If c
// reads from the beginning, it is notified of the next change.
func (b *Bulletin[C]) Next(c C, uid uint32, after control.AnnouncementPlace) *control.Announcement {
	b.mu.Lock()
	defer b.mu.Unlock()
	user := b.Users.Of(uid)
	if after == (control.AnnouncementPlace{}) {
		b.notifyNext(c, user)
	}
	own := b.places[c]
	var first *posted
	for _, list := range [2][]posted{b.own, b.linked} {
		i, found := slices.BinarySearchFunc(list, after, posted.compare)
		if found {
			i++
		}
		for i < len(list) && (list[i].AnnouncementPlace == own || !list[i].isFor(user)) {
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

// NextChange returns the first change with a number above since of an announcement of others that c may read,
// or could read before. If notify is true, c is notified of the next change.
func (b *Bulletin[C]) NextChange(c C, uid uint32, since uint64, notify bool) *control.Change {
	b.mu.Lock()
	defer b.mu.Unlock()
	user := b.Users.Of(uid)
	if notify {
		b.notifyNext(c, user)
	}
	return b.history.next(since, user, b.places[c])
}

// notifyNext makes the bulletin notify a client of the next change.
func (b *Bulletin[C]) notifyNext(c C, user uint32) {
	if b.readers == nil {
		b.readers = make(map[C]*reader)
	}
	b.readers[c] = &reader{user: user, waits: true}
}
