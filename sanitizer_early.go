package nicless

import (
	"cmp"
	"os"
	"slices"

	"github.com/nicless/nicless/hostpath"
	"github.com/nicless/nicless/internal/guardpages"
	"github.com/nicless/nicless/sanitize"
	"github.com/nicless/nicless/trace"
)

// joinSanitizers lets the sanitizers that look at the device of c find early accesses to the buffers of its
// receives, in what c makes from now on. It reports whether there are such sanitizers.
func (c *client) joinSanitizers() (sanitized bool) {
	l := &sanitizers
	l.mu.Lock()
	defer l.mu.Unlock()
	sanitized = l.seen(c)
	if sanitized && c.early.Load() == nil {
		c.findEarly(func(a earlyAccess) { l.early(c, a) }, func(err error) {
			if c.log != nil {
				c.log.Warn(err.Error())
			}
		})
		l.protected[c] = struct{}{}
	}
	return sanitized
}

// leaveSanitizers opens what is protected of c, which is closed.
func (c *client) leaveSanitizers() {
	if e := c.early.Load(); e != nil {
		e.close()
	}
	sanitizers.mu.Lock()
	defer sanitizers.mu.Unlock()
	delete(sanitizers.protected, c)
}

// endEarly removes s. All early accesses that were found before have then been reported. Nothing is protected
// any more of clients at whose device no other sanitizer looks.
func (s *Sanitizer) endEarly() {
	if d := s.c.driver; d == nil || !d.bubble {
		guardpages.Flush()
	}
	for _, c := range sanitizers.remove(s) {
		c.dropEarly()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.emitting {
		s.emitted.Wait()
	}
}

// early reports an early access of this program by c. Others wait for the goroutine that calls it.
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
	s.mu.Lock()
	defer s.mu.Unlock()
	if a.write {
		if len(s.stored) < mostStored {
			s.stored[storedAt{a.queue, a.index}] = r
		}
		return
	}
	about := readAt{a.queue, a.buffer}
	if s.readEarly[about] || len(s.readEarly) >= mostReadEarly {
		return
	}
	s.readEarly[about] = true
	s.toEmit = append(s.toEmit, r)
	if !s.emitting {
		s.emitting = true
		go s.emitEarly()
	}
}

// Bounds of what is kept, far above what a person reads.
const (
	mostReadEarly = 1 << 10 // buffers of which early reads are reported
	mostStored    = 1 << 12 // stores that are kept
)

// A readAt is a buffer that was read early. It is reported once.
type readAt struct {
	queue  queueAt
	buffer uint64
}

// emitEarly makes the reports about early reads, on a goroutine of its own: SanitizerConfig.Report may close
// memory, which waits until the accesses to the memory that were found have got here.
func (s *Sanitizer) emitEarly() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.toEmit) > 0 {
		r := s.toEmit[0]
		s.toEmit = s.toEmit[1:]
		s.mu.Unlock()
		s.emit(&r)
		s.mu.Lock()
	}
	s.emitting = false
	s.emitted.Broadcast()
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

// dropStores forgets the stores to the buffers of a queue that is gone, after it has noted them.
func (s *Sanitizer) dropStores(e *trace.Event) {
	at := queueAt{e.Queue, e.Kind == trace.KindSRQ}
	if at.shared && e.Index == trace.KeyGone || e.Kind == trace.KindQueueGone {
		s.noteStores(func(x storedAt) bool { return x.queue == at })
	}
}

// noteStores reports those stores that are chosen and that the device has not seen to change anything, as
// notes.
func (s *Sanitizer) noteStores(chosen func(storedAt) bool) {
	var list []sanitize.Report
	s.mu.Lock()
	for at, r := range s.stored {
		if chosen(at) {
			list = append(list, r)
			delete(s.stored, at)
		}
	}
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
