//go:build linux && (amd64 || arm64)

package bulletin

import (
	"cmp"
	"slices"

	"github.com/nicless/nicless/internal/board"
	"github.com/nicless/nicless/internal/control"
)

// maxHistory is how many changes a history has. A rack of 1,024 engines with 59 announcements each changes no
// more at once than some thousands, and those who read learn of a change within milliseconds.
const maxHistory = 8192

// A history is which announcements have changed, from the one that has not changed for longest. A place is in
// it once for each user that could read it before or after a change, so one client that announces something
// else all the time displaces nothing of others.
//
// The cost of a change does not grow with the history, because a node of a pool may cause more than 1,000 in
// each tick: a change that was followed by another one of the same place stays in list until half of all are
// such.
type history struct {
	list    []noted           // sorted by number; with changes that are not in numbers any more
	numbers map[change]uint64 // of the newest change of each
	newest  uint64            // the number of the newest change
	dropped uint64            // the number of the newest change that is not in list because of maxHistory
}

// A change is where something has changed, and whose clients may know it.
type change struct {
	place control.AnnouncementPlace
	to    uint32 // a user, or board.AllUsers
}

// A noted change has its number.
type noted struct {
	change
	number uint64
}

func (n noted) compare(number uint64) int { return cmp.Compare(n.number, number) }

// after returns the index of the first change with a larger number.
func (h *history) after(number uint64) int {
	i, found := slices.BinarySearchFunc(h.list, number, noted.compare)
	if found {
		i++
	}
	return i
}

// add adds the newest change.
func (h *history) add(c change) {
	if h.numbers == nil {
		h.numbers = make(map[change]uint64)
	}
	h.newest++
	h.numbers[c] = h.newest
	h.list = append(h.list, noted{c, h.newest})
	for !h.has(h.list[0]) || len(h.numbers) > maxHistory {
		if h.has(h.list[0]) {
			h.dropped = h.list[0].number
			delete(h.numbers, h.list[0].change)
		}
		h.list = h.list[1:]
	}
	if len(h.list) > 2*maxHistory {
		h.list = slices.DeleteFunc(h.list, func(n noted) bool { return !h.has(n) })
	}
}

// has reports whether a change in the list is the newest of its place.
func (h *history) has(n noted) bool { return h.numbers[n.change] == n.number }

// next returns the first change after a number that clients of a user may know, but not one of own.
func (h *history) next(since uint64, user uint32, own control.AnnouncementPlace) *control.Change {
	answer := &control.Change{Newest: h.newest}
	if since < h.dropped {
		answer.Dropped = 1
		return answer
	}
	for _, n := range h.list[h.after(since):] {
		if (n.to == board.AllUsers || n.to == user) && n.place != own && h.has(n) {
			answer.AnnouncementPlace, answer.Number = n.place, n.number
			break
		}
	}
	return answer
}
