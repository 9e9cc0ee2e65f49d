package nicless

import (
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"sync"

	"github.com/nicless/nicless/hostpath"
	"github.com/nicless/nicless/internal/guardpages"
	"github.com/nicless/nicless/internal/shm"
)

// An earlyAccess is an access of this program to the buffer of a receive before Poll has returned the
// receive's completion.
type earlyAccess struct {
	queue  queueAt
	index  uint16 // of the receive in a queue pair, or of the entry of an SRQ; as in a completion
	id     uint64 // RecvWR.ID
	addr   uint64 // address of the access in this process
	write  bool
	buffer uint64    // address of the piece of the receive that was accessed
	length uint32    // of the piece, in bytes
	key    uint32    // of the piece
	calls  []uintptr // of the access, innermost first, for runtime.CallersFrames
	posted hostpath.Stack
}

// earlyAccesses protects the buffers of receives while they are posted, page by page. A buffer, or a part of
// it, that is no whole page is not protected. The device has to use the memory by a mapping of its own.
// Its methods are safe for concurrent use.
type earlyAccesses struct {
	report func(earlyAccess) // is called by one goroutine, for which package guardpages may wait
	refuse func(error)       // is called once if memory cannot be protected, and if accesses were too many
	dev    separable
	lost   uint64 // accesses of this process that were not reported when this began

	// order is held from the moment at which a post or a poll changes a ring until it is noted here: an entry
	// that a poll has freed is not posted again before the poll is noted.
	order sync.Mutex

	making  sync.Mutex // held while Pages are made, which waits for reports that are being made; not with mu
	refused bool

	closing sync.Once

	mu       sync.Mutex
	closed   bool
	memory   map[*shm.Region]*guardpages.Pages
	keys     map[uint32]keyedMemory
	queues   map[queueAt]*postedReceives // that were made since this began: only they are protected
	qps      map[uint32]queueAt          // by QPN: where the queue pair's receives come from
	owners   map[uint64]*postedReceive
	last     uint64   // number of the last receive that is protected
	released []uint64 // receives that are not posted any more, and are still in owners; see release
}

// keyedMemory is memory that a key names.
type keyedMemory struct {
	pages *guardpages.Pages
	mem   []byte
	at    uint64 // address of mem in this process
	addr  uint64 // by which work requests name the first byte
}

// postedReceives are the receives of a queue.
type postedReceives struct {
	oldest, next uint64 // counts of the receives of a queue pair: those from oldest up to next are posted
	at           map[uint16]*postedReceive
}

type postedReceive struct {
	earlyAccess // without address and calls
	owner       uint64
	pieces      []protectedPiece
	reported    bool // a load was
	stored      bool // a store was
	over        bool // it is not posted any more
}

type protectedPiece struct {
	mem   []byte
	at    uint64 // address of mem in this process
	key   uint32
	pages *guardpages.Pages
}

// lateReports is how many receives are kept after their completion, because a report about them can still be
// under way.
const lateReports = 1 << 10

// A separable device can use memory by mappings of its own. Then it does not matter to the device that pages
// of the program's mapping are protected.
type separable interface {
	// separate makes the device use regions that are made from now on by a mapping of its own, if it can.
	separate()

	// separated reports whether the device uses a region by a mapping of its own.
	separated(region uint32) bool
}

// findEarly begins to look for early accesses to the buffers of receives, in memory and queues that are made
// from now on. Nothing is found on a device that is not separable.
func (c *client) findEarly(report func(earlyAccess), refuse func(error)) {
	dev, ok := c.dev.(separable)
	if !ok || c.driver != nil && c.driver.bubble { // the goroutine that reports would hold up the bubble
		return
	}
	dev.separate()
	c.early.CompareAndSwap(nil, newEarlyAccesses(dev, report, refuse))
}

// dropEarly ends what findEarly has begun. Memory is open before others see that nothing is looked for: they
// may unmap it then.
func (c *client) dropEarly() {
	if e := c.early.Load(); e != nil {
		e.close()
		c.early.CompareAndSwap(e, nil)
	}
}

func newEarlyAccesses(dev separable, report func(earlyAccess), refuse func(error)) *earlyAccesses {
	return &earlyAccesses{report: report, refuse: refuse, dev: dev, lost: guardpages.Lost(),
		memory: make(map[*shm.Region]*guardpages.Pages), keys: make(map[uint32]keyedMemory),
		queues: make(map[queueAt]*postedReceives), qps: make(map[uint32]queueAt),
		owners: make(map[uint64]*postedReceive)}
}

// addKey says that m has got its key. at is the address of its memory in this process.
func (e *earlyAccesses) addKey(m *MR, at uint64) {
	e.making.Lock()
	defer e.making.Unlock()
	p, err := e.pages(m.root())
	switch {
	case err == nil:
		e.mu.Lock()
		defer e.mu.Unlock()
		e.keys[m.key] = keyedMemory{p, m.mem, at, m.addr}
	case !e.refused && !errors.Is(err, ErrClosed):
		e.refused = true
		e.refuse(fmt.Errorf("nicless: early accesses to buffers of receives are not found: %w", err))
	}
}

// pages returns the pages of memory. The caller holds making.
func (e *earlyAccesses) pages(root *MR) (*guardpages.Pages, error) {
	r := root.region
	e.mu.Lock()
	p, closed := e.memory[r], e.closed
	e.mu.Unlock()
	if p != nil {
		return p, nil
	}
	whole := r.Bytes()
	switch {
	case closed || whole == nil:
		return nil, ErrClosed
	case !e.dev.separated(root.id):
		return nil, errors.New("the engine in this process uses the same mapping of the memory")
	}
	p, err := guardpages.New(whole, e.accessed)
	if err != nil {
		return nil, err
	}
	e.mu.Lock()
	closed = e.closed
	if !closed {
		e.memory[r] = p
	}
	e.mu.Unlock()
	if closed {
		p.Close()
		return nil, ErrClosed
	}
	return p, nil
}

// dropKey says that a key is gone.
func (e *earlyAccesses) dropKey(key uint32) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.keys, key)
}

// dropMemory opens memory that is about to be unmapped.
func (e *earlyAccesses) dropMemory(r *shm.Region) {
	e.mu.Lock()
	p := e.memory[r]
	delete(e.memory, r)
	e.mu.Unlock()
	if p != nil {
		p.Close() // not with mu, which the reports that Close waits for need
	}
}

// close opens all memory, and protects none from now on. All accesses that were found have then been
// reported.
func (e *earlyAccesses) close() {
	e.closing.Do(func() {
		e.mu.Lock()
		e.closed = true
		list := slices.Collect(maps.Values(e.memory)) // which stays there: dropMemory has to wait for Close
		e.mu.Unlock()
		for _, p := range list {
			p.Close()
		}
		e.mu.Lock()
		clear(e.memory)
		e.mu.Unlock()
		if n := guardpages.Lost() - e.lost; n > 0 {
			e.refuse(fmt.Errorf("nicless: %d early accesses to buffers of receives came too fast to be reported", n))
		}
	})
}

// addQueue says that a queue pair was made, and where its receives come from.
func (e *earlyAccesses) addQueue(qpn uint32, from queueAt) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.qps[qpn] = from
	if !from.shared {
		e.queues[from] = newPostedReceives()
	}
}

// addSRQ says that an SRQ was made.
func (e *earlyAccesses) addSRQ(number uint32) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.queues[queueAt{number, true}] = newPostedReceives()
}

func newPostedReceives() *postedReceives {
	return &postedReceives{at: make(map[uint16]*postedReceive)}
}

// dropQueue says that a queue pair is gone. A queue pair may have taken receives from an SRQ whose
// completions will not come, so these are opened too.
func (e *earlyAccesses) dropQueue(qpn uint32) {
	e.mu.Lock()
	defer e.mu.Unlock()
	from := e.qps[qpn]
	delete(e.qps, qpn)
	e.empty(from)
	if !from.shared {
		delete(e.queues, from)
	}
}

// dropSRQ says that an SRQ is gone.
func (e *earlyAccesses) dropSRQ(number uint32) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.empty(queueAt{number, true})
	delete(e.queues, queueAt{number, true})
}

// reset says that a queue pair was reset.
func (e *earlyAccesses) reset(from queueAt) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.empty(from)
}

// empty opens the buffers of all receives of a queue. The caller holds mu.
func (e *earlyAccesses) empty(from queueAt) {
	if q := e.queues[from]; q != nil {
		for _, r := range q.at {
			e.release(r)
		}
		clear(q.at)
		q.oldest, q.next = 0, 0
	}
}

// post protects the buffer of the next receive. It is called after the receive was written into the ring, and
// before the device learns of it. entry is the index of the entry of an SRQ; a queue pair counts its own. The
// caller holds order.
func (e *earlyAccesses) post(to queueAt, entry uint16, wr *RecvWR, posts *hostpath.Posts) {
	e.mu.Lock()
	defer e.mu.Unlock()
	q := e.queues[to]
	if q == nil {
		return // it is gone, or older than the sanitizer: completions do not lead to its receives then
	}
	if !to.shared {
		entry = uint16(q.next)
		q.next++
	}
	var r *postedReceive
	for _, s := range wr.SGE {
		k, ok := e.keys[s.LKey]
		off := s.Addr - k.addr
		if !ok || off > uint64(len(k.mem)) || uint64(s.Length) > uint64(len(k.mem))-off {
			continue // no memory of RegisterMemory, or a mistake that the device will find
		}
		mem := k.mem[off:][:s.Length]
		if k.pages.Protect(mem, e.last+1) == 0 {
			continue
		}
		if r == nil {
			r = &postedReceive{owner: e.last + 1}
			r.queue, r.index, r.id = to, entry, wr.ID
			if posts != nil {
				_, r.posted = posts.At(uint64(entry))
			}
		}
		r.pieces = append(r.pieces, protectedPiece{mem, k.at + off, s.LKey, k.pages})
	}
	if r != nil {
		e.last++
		e.owners[r.owner] = r
		q.at[entry] = r
	}
}

// poll is Poll of a queue, and opens the buffers of the receives whose completions it returns.
func (e *earlyAccesses) poll(q *hostpath.CQ, dst []Completion) int {
	e.order.Lock()
	defer e.order.Unlock()
	n := q.Poll(dst)
	e.polled(dst[:n])
	return n
}

// tryPoll is TryPoll of a queue, as poll is Poll.
func (e *earlyAccesses) tryPoll(q *hostpath.CQ, dst []Completion) (n int, ok bool) {
	e.order.Lock()
	defer e.order.Unlock()
	n, ok = q.TryPoll(dst)
	e.polled(dst[:n])
	return n, ok
}

// polled opens the buffers of receives whose completions Poll is about to return. The caller holds order.
func (e *earlyAccesses) polled(list []Completion) {
	for i := range list {
		if c := &list[i]; !c.Requester() {
			e.completed(c.QPN, c.Counter)
		}
	}
}

// completed opens the buffer of a receive, and those of earlier receives of a queue pair.
func (e *earlyAccesses) completed(qpn uint32, index uint16) {
	e.mu.Lock()
	defer e.mu.Unlock()
	from, ok := e.qps[qpn]
	q := e.queues[from]
	if !ok || q == nil {
		return
	}
	if from.shared {
		e.complete(q, index)
		return
	}
	for n := q.next - q.oldest; n > 0; n-- {
		at := uint16(q.oldest)
		q.oldest++
		e.complete(q, at)
		if at == index {
			return
		}
	}
}

func (e *earlyAccesses) complete(q *postedReceives, index uint16) {
	if r := q.at[index]; r != nil {
		delete(q.at, index)
		e.release(r)
	}
}

// release opens the buffer of a receive that is not posted any more. The caller holds mu.
func (e *earlyAccesses) release(r *postedReceive) {
	r.over = true
	r.open()
	e.released = append(e.released, r.owner)
	if len(e.released) > lateReports {
		delete(e.owners, e.released[0])
		e.released = e.released[1:]
	}
}

// open opens the buffer. Others who have posted the same memory have it opened too.
func (r *postedReceive) open() {
	for _, p := range r.pieces {
		p.pages.Release(p.mem)
	}
}

// accessed is called for the first access to a page.
func (e *earlyAccesses) accessed(f guardpages.Fault) {
	e.mu.Lock()
	r := e.owners[f.Owner]
	if r == nil || r.reported || (f.Write && r.stored) {
		e.mu.Unlock()
		return
	}
	a := r.earlyAccess
	for _, p := range r.pieces {
		if f.Addr-p.at < uint64(len(p.mem)) {
			a.buffer, a.length, a.key = p.at, uint32(len(p.mem)), p.key
		}
	}
	if f.Write {
		r.stored = true // a load from another page may follow
	} else {
		r.reported = true
		if !r.over {
			r.open() // one report for each receive is enough
		}
	}
	e.mu.Unlock()
	a.addr, a.write, a.calls = f.Addr, f.Write, f.Calls
	e.report(a)
}

// postRecvEarly is PostRecv for a queue whose buffers are protected.
func (q *QP) postRecvEarly(e *earlyAccesses, wr *RecvWR) error {
	e.order.Lock()
	defer e.order.Unlock()
	if err := q.rq.PostRecv(wr); err != nil {
		return err
	}
	e.post(queueAt{number: q.qpn}, 0, wr, q.rq.Posts())
	q.rq.Ring()
	q.c.waker.wakeOr(q.stepReceive)
	runtime.KeepAlive(q)
	return nil
}

// postRecvEarly is PostRecv for a queue whose buffers are protected.
func (q *SRQ) postRecvEarly(e *earlyAccesses, wr *RecvWR) error {
	e.order.Lock()
	defer e.order.Unlock()
	entry := q.srq.Next()
	if err := q.srq.PostRecv(wr); err != nil {
		return err
	}
	e.post(queueAt{number: q.srqn, shared: true}, entry, wr, q.srq.Posts())
	q.srq.Ring()
	q.c.waker.wakeOr(q.c.steps.Shared)
	runtime.KeepAlive(q)
	return nil
}

// postEach posts receives one by one.
func postEach(wrs []RecvWR, post func(*RecvWR) error) (int, error) {
	for i := range wrs {
		if err := post(&wrs[i]); err != nil {
			return i, err
		}
	}
	return len(wrs), nil
}
