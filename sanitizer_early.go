package nicless

import (
	"cmp"
	"maps"
	"os"
	"slices"

	"github.com/nicless/nicless/hostpath"
	"github.com/nicless/nicless/internal/guardpages"
	"github.com/nicless/nicless/sanitize"
)

// joinSanitizers lets the sanitizers that look at the device of c find early accesses to the buffers of its
// receives, in what c makes from now on. It reports whether there are such sanitizers.
func (c *client) joinSanitizers() (sanitized bool) {
	sanitized = sanitizers.on(c)
	if sanitized && c.early.Load() == nil {
		c.findEarly(func(a earlyAccess) { sanitizers.early(c, a) }, func(err error) {
			if c.log != nil {
				c.log.Warn(err.Error())
			}
		})
	}
	return sanitized
}

// endEarly removes s. All early accesses that were found have then been reported to s. If no other sanitizer
// looks at the device of c, nothing of c is protected any more.
func (c *client) endEarly(s *Sanitizer) {
	e := c.early.Load()
	if e != nil {
		guardpages.Flush()
	}
	sanitizers.remove(s)
	if e != nil && !sanitizers.on(c) && c.early.CompareAndSwap(e, nil) {
		e.close()
	}
}

// early reports an early access of this program by c.
func (l *sanitizerList) early(c *client, a earlyAccess) {
	l.mu.Lock()
	list := slices.Clone(l.list)
	l.mu.Unlock()
	for _, s := range list {
		if s.c == c || s.all && s.sees(c) {
			s.early(a)
		}
	}
}

func (s *Sanitizer) early(a earlyAccess) {
	x := sanitize.EarlyAccess{
		Program: programName(), PID: uint64(os.Getpid()), Client: s.posters.clientOf(a.queue),
		Index: a.index, Addr: a.addr, Write: a.write, Buffer: a.buffer, Length: uint64(a.length), Key: a.key,
		Stack: hostpath.Calls(a.calls), Posted: a.posted.Lines(),
	}
	if a.queue.shared {
		x.SRQ = a.queue.number
	} else {
		x.QP = a.queue.number
	}
	r := x.Report()
	if !a.write {
		s.emit(&r)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stored[storedAt{a.queue, a.index}] = r
}

// A storedAt is a receive whose buffer the program was seen to store to. Whether that is a mistake depends on
// what the device sees: programs send from there, too.
type storedAt struct {
	queue queueAt
	index uint16
}

// explainStore adds the stack of the store to the report of the device that bytes of a receive buffer have
// changed.
func (s *Sanitizer) explainStore(r *sanitize.Report) {
	if r.Code != sanitize.ReceiveBufferChanged || len(r.Accesses) != 2 || r.Accesses[0].Index == nil {
		return
	}
	receive, store := &r.Accesses[0], &r.Accesses[1]
	at := storedAt{queueAt{number: receive.QP}, *receive.Index}
	if receive.SRQ != 0 {
		at.queue = queueAt{receive.SRQ, true}
	}
	if d := s.c.driver; d == nil || !d.bubble {
		guardpages.Flush() // the program's own report may be under way
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if own, ok := s.stored[at]; ok {
		store.Stack = own.Accesses[0].Stack
		delete(s.stored, at)
	}
}

// noteStores reports the stores that the device has not seen to change anything, as notes.
func (s *Sanitizer) noteStores() {
	s.mu.Lock()
	list := slices.Collect(maps.Values(s.stored))
	clear(s.stored)
	s.mu.Unlock()
	if !s.cfg.Notes {
		return
	}
	slices.SortFunc(list, func(a, b sanitize.Report) int {
		return cmp.Compare(a.Accesses[0].Addr, b.Accesses[0].Addr)
	})
	for i := range list {
		s.emit(&list[i])
	}
}

// clientOf returns the number of the client that has a queue, if it is known. Only queue pairs are known in a
// device with several clients.
func (p *posters) clientOf(at queueAt) uint32 {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n, ok := p.owners[at.number]; ok && !at.shared {
		return n
	}
	return p.client
}
