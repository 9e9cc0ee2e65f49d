package pool

import (
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/internal/packetring"
	"github.com/nicless/nicless/internal/shm"
)

// Memory of the pool can be lost while it is used: somebody makes the file shorter, its file system is full,
// or the memory fails (SIGBUS). Whatever touches it then, the other memory is as good as before. So a
// fault costs what was in that page: a link whose rings or whose peer's own pages were there, or this node if
// its own pages were (absent.go).

// A lostMemory is an error: memory at an offset of the pool was touched, and is not there.
type lostMemory struct {
	at   uint64
	spot *spot // nil: it is not known yet (locate)
}

func (e *lostMemory) Error() string {
	in := ""
	if e.spot != nil {
		in = fmt.Sprintf(", in %v,", e.spot)
	}
	return fmt.Sprintf("the pool's memory at byte %d%s is gone: has somebody made the file shorter, is its file system full, or has the memory failed?", e.at, in)
}

// A spot says what is at an offset of the pool.
type spot struct {
	node  int    // whose part it is; -1: the header
	rings bool   // in the rings of that node
	page  uint32 // if it is: in pages from the first ring of the part on
}

func (s spot) String() string {
	switch {
	case s.node < 0:
		return "the header"
	case s.rings:
		return fmt.Sprintf("page %d of the rings of node %d", s.page, s.node)
	}
	return fmt.Sprintf("what node %d says of itself", s.node)
}

// spotAt returns what is at an offset.
func (h *header) spotAt(at uint64) spot {
	if at < partsAt || h.part() == 0 {
		return spot{node: -1}
	}
	s := spot{node: int((at - partsAt) / h.part())}
	if in := (at - partsAt) % h.part(); in >= h.ringsAt() {
		s.rings, s.page = true, uint32((in-h.ringsAt())/shm.PageSize)
	}
	return s
}

// locate returns the memory that an error of guard says is lost, and what was there; nil if the error is
// another one. It is called on the goroutine of watch.
func (p *Pool) locate(err error) *lostMemory {
	var lost *lostMemory
	if !errors.As(err, &lost) {
		return nil
	}
	s := p.header.spotAt(lost.at)
	return &lostMemory{lost.at, &s}
}

// guard calls f. It returns the error of f, or a *lostMemory if memory of the pool is lost meanwhile. f may
// have stopped at any access of that memory.
func (p *Pool) guard(f func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		r := recover()
		if r == nil {
			return
		}
		fault, ok := r.(interface{ Addr() uintptr })
		if !ok {
			panic(r)
		}
		at, ok := shm.Offset(p.view.mem, uint64(fault.Addr()))
		if !ok {
			panic(r)
		}
		err = &lostMemory{at: at}
	}()
	return f()
}

// present reports whether all memory from an offset on can be touched, page by page.
func (p *Pool) present(at, n uint64) bool {
	return p.guard(func() error {
		for end := at + n; at < end; at += shm.PageSize {
			_ = p.view.word(at)
		}
		return nil
	}) == nil
}

// peek returns the first line of a node's part, and whether it can be read.
func (p *Pool) peek(h *header, node int) (l life, ok bool) {
	err := p.guard(func() error { l = p.view.life(h.partAt(node)); return nil })
	return l, err == nil
}

// peekDescription returns what a node says of itself. An error says that it cannot be read, or is wrong.
func (p *Pool) peekDescription(h *header, node int) (d description, err error) {
	err = p.guard(func() (err error) { d, _, err = p.view.described(h.partAt(node)); return err })
	return d, err
}

// lose ends what a fault at a look at a node has hit: the link with it, or this node itself.
func (p *Pool) lose(node int, lost *lostMemory, now time.Time, ran time.Duration) {
	mine := lost.spot.node == p.number
	switch {
	case mine && !lost.spot.rings:
		p.loseOwn(lost)
		return
	case mine:
		p.share.setAside(lost.spot.page)
	}
	if l := p.links[node]; l != nil {
		l.lose(lost, now, ran)
	} else {
		p.unseen[node] = ran + mostRest
	}
}

// lose ends a link of which memory is lost. Its peer is looked at again after a rest, which becomes longer.
func (l *link) lose(lost *lostMemory, now time.Time, ran time.Duration) {
	l.restAgain(now)
	if lost.spot.node == l.peer && !lost.spot.rings {
		l.seen, l.alive = false, false
		l.p.unseen[l.peer] = ran + l.restUntil.Sub(now)
	}
	l.withdrawBoard()
	l.close(fmt.Sprintf("node %d: %v", l.peer, lost))
}

// takeFailure ends the link if the device has given its port up.
func (l *link) takeFailure(now time.Time, ran time.Duration) {
	if l.pair == nil {
		return
	}
	failed := l.pair.failed.Swap(nil)
	if failed == nil {
		return
	}
	if lost := l.p.locate(l.p.lostBy(*failed)); lost != nil {
		l.p.lose(l.peer, lost, now, ran)
		return
	}
	l.suspect(now)
	if errors.Is(*failed, packetring.ErrSum) {
		l.close(fmt.Sprintf("node %d: its packet is not what it sent: is memory stale, lost or damaged? %v", l.peer, *failed))
		return
	}
	l.close(fmt.Sprintf("node %d has written garbage into its ring: %v", l.peer, *failed))
}

// lostBy returns the error of guard for the device's error, if it is about lost memory.
func (p *Pool) lostBy(err error) error {
	var addr nic.LostMemory
	if !errors.As(err, &addr) {
		return err
	}
	at, _ := shm.Offset(p.view.mem, uint64(addr))
	return &lostMemory{at: at}
}

// mostTakes is how much memory, ring by ring, is looked at before a node says that it has no room: a fault
// takes some microseconds.
const mostTakes = 64

// takeSound takes pages for a ring, all of which are there. Pages that are not are set aside.
func (p *Pool) takeSound(n, left uint64) (extent, bool) {
	for range mostTakes {
		m, ok := p.share.take(n, left)
		if !ok || p.sound(m) {
			return m, ok
		}
		p.share.give(m)
	}
	return extent{}, false
}

// sound reports whether all pages are there, and sets those aside that are not.
func (p *Pool) sound(m extent) bool {
	before := len(p.share.lost)
	for i := range m.n {
		if !p.present(p.part+p.header.ringsAt()+uint64(m.at+i)*shm.PageSize, shm.PageSize) {
			p.share.setAside(m.at + i)
		}
	}
	lost := len(p.share.lost) - before
	if lost > 0 {
		p.cfg.Log.Warn("pages for rings are lost, and set aside", "link", p.Name(), "pages", lost, "of", m.n)
	}
	return lost == 0
}

// mostReturns is how many pages may still be lost in one look at those that were set aside: these cost a
// fault each. The others cost a load.
const mostReturns = 64

// takeBack looks once in mostRest whether pages that were set aside are there again: the file has become
// longer, or its file system has room.
func (p *Pool) takeBack(ran time.Duration) {
	s := &p.share
	if len(s.lost) == 0 || ran < s.returns {
		return
	}
	s.returns = ran + mostRest
	faults := 0
	for page := range s.lost {
		if p.present(p.part+p.header.ringsAt()+uint64(page)*shm.PageSize, shm.PageSize) {
			s.takeBack(page)
			continue
		}
		faults++
		if faults == mostReturns {
			break
		}
	}
	p.reportRoom()
}
