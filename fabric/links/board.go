//go:build linux && (amd64 || arm64)

package links

import (
	"time"

	"github.com/nicless/nicless/fabric"
	"github.com/nicless/nicless/fabric/pool"
	"github.com/nicless/nicless/fabric/ucx"
	"github.com/nicless/nicless/internal/board"
)

// An announcer is a link that carries announcements: a pool or UCX.
type announcer interface {
	fabric.Link

	// Announce sends the peers the announcements of this engine's clients, in place of those before, and
	// returns how many entries have no room.
	Announce(list []board.Entry) (left int, err error)
}

var (
	_ announcer = (*pool.Pool)(nil)
	_ announcer = (*ucx.Carrier)(nil)
)

// announcePause is the least time between two lists that the links get, whatever clients do.
// Nodes of a pool look for a new one as often.
const announcePause = 20 * time.Millisecond

// startAnnouncing makes the links send their peers the announcements of this engine's clients, until Close.
func (t *Table) startAnnouncing() {
	var to []announcer
	for _, l := range t.current.Load().links {
		if a, ok := l.(announcer); ok {
			to = append(to, a)
		}
	}
	if len(to) == 0 {
		return
	}
	news := make(chan struct{}, 1)
	note := func() {
		select {
		case news <- struct{}{}:
		default:
		}
	}
	t.dev.OnAnnounce(note)
	note() // of what was announced before
	t.announcing.Go(func() {
		left := make([]int, len(to))
		for {
			select {
			case <-news:
				t.sendAnnouncements(to, left)
			case <-t.ends:
				return
			}
			select {
			case <-time.After(announcePause):
			case <-t.ends:
				return
			}
		}
	})
}

// stopAnnouncing ends what startAnnouncing has started. The links may be closed after it.
func (t *Table) stopAnnouncing() {
	t.dev.OnAnnounce(nil)
	t.end.Do(func() { close(t.ends) })
	t.announcing.Wait()
}

// sendAnnouncements gives the links the present list. left has how many entries each link had no room for,
// the last time.
func (t *Table) sendAnnouncements(to []announcer, left []int) {
	list := t.dev.Announced()
	for i, l := range to {
		n, err := l.Announce(list)
		if err != nil {
			t.boardLog.Warn("announcements not told", "link", l.Name(), "error", err.Error())
		}
		if n > left[i] {
			t.boardLog.Warn("some announcements not told: no room", "link", l.Name(), "left out", n,
				"announcements", len(list), "most bytes", board.Max)
		}
		left[i] = n
	}
}
