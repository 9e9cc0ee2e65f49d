//go:build linux && amd64

package guardpages

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// Pages is memory of which parts can be protected. Its methods are safe for concurrent use.
type Pages struct {
	mem    []byte
	slot   int
	states []atomic.Uint64 // of each page: its owner while it is protected, else 0; the handler clears it
	report func(Fault)

	closing sync.Once

	mu     sync.Mutex
	closed bool
	starts []bool // of each page: a run of protected pages began there; see room
	runs   int    // number of starts
}

// New returns memory of which no page is protected. mem is a mapping, or part of one, that begins at a page
// and has whole pages, and that is readable and writable. It has to stay mapped until Close.
//
// report is called for each page that is accessed while it is protected, on a goroutine that all Pages
// share, in the order of the accesses. It may call Protect and Release, and nothing else of this package.
//
// The error says why the memory cannot be protected: it has huge pages, the table of 256 mappings is full, or
// something other than the Go runtime handles SIGSEGV.
func New(mem []byte, report func(Fault)) (_ *Pages, err error) {
	base := addressOf(mem)
	if len(mem) == 0 || len(mem)%PageSize != 0 || base%PageSize != 0 {
		return nil, fmt.Errorf("guardpages: %d bytes at %#x; whole pages of %d are possible", len(mem), base, PageSize)
	}
	if os.Getpagesize() != PageSize {
		return nil, fmt.Errorf("guardpages: the pages of this system have %d bytes, not %d", os.Getpagesize(), PageSize)
	}
	n := len(mem) / PageSize
	p := &Pages{mem: mem, states: make([]atomic.Uint64, n), starts: make([]bool, n), report: report}
	if err := reading.add(p, base); err != nil {
		return nil, err
	}
	if err := install(); err != nil {
		reading.remove(base)
		return nil, err
	}
	p.slot = enter(mem, p.states)
	if p.slot < 0 {
		reading.remove(base)
		return nil, fmt.Errorf("guardpages: %d mappings are in use, all there can be", mostSlots)
	}
	// Huge pages cannot be protected in part.
	first := mem[:PageSize]
	if err := errors.Join(protect(first, unix.PROT_NONE), protect(first, open)); err != nil {
		p.Close()
		return nil, fmt.Errorf("guardpages: %d bytes at %#x: %w", len(mem), base, err)
	}
	return p, nil
}

// open is the protection of memory that is not protected.
const open = unix.PROT_READ | unix.PROT_WRITE

// protect sets the protection of pages.
func protect(b []byte, prot int) error {
	if err := unix.Mprotect(b, prot); err != nil {
		return fmt.Errorf("mprotect %d bytes: %w", len(b), err)
	}
	return nil
}

// Protect protects the pages that lie wholly in b, which is part of the memory, and are not protected yet.
// owner is not 0; the report of an access has it. Protect returns how many pages it has protected. That is 0
// for a buffer of less than a page, after Close, and when the kernel has no room for more mappings.
func (p *Pages) Protect(b []byte, owner uint64) (pages int) {
	first, end := p.whole(b)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return 0
	}
	for at := first; at < end; at++ {
		if p.states[at].Load() != 0 {
			continue
		}
		next := at + 1
		for next < end && p.states[next].Load() == 0 {
			next++
		}
		if !p.starts[at] { // it may have begun there before, and the handler has opened the page
			if !room.take() {
				return pages
			}
			p.starts[at] = true
			p.runs++
		}
		// The owner comes first: the handler may need it at once.
		for i := at; i < next; i++ {
			p.states[i].Store(owner)
		}
		if protect(p.mem[at*PageSize:next*PageSize], unix.PROT_NONE) != nil {
			p.open(at, next)
			return pages
		}
		pages += next - at
		at = next
	}
	return pages
}

// Release ends the protection of the pages that lie wholly in b, whoever their owner is. Accesses that have
// begun before may still be reported afterwards.
func (p *Pages) Release(b []byte) {
	first, end := p.whole(b)
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed {
		p.open(first, end)
	}
}

// open opens the pages from first up to end. The caller holds mu.
func (p *Pages) open(first, end int) {
	begin, after := end, first // what was protected
	for i := first; i < end; i++ {
		if p.starts[i] {
			p.starts[i] = false
			p.runs--
			room.give(1)
		}
		if p.states[i].Swap(0) != 0 {
			begin, after = min(begin, i), i+1
		}
	}
	if begin >= after {
		return
	}
	if protect(p.mem[begin*PageSize:after*PageSize], open) != nil {
		// The kernel has no room for the mappings that this would leave. One mapping needs none.
		for i := range p.states {
			p.states[i].Store(0)
		}
		_ = protect(p.mem, open)
	}
}

// whole returns the numbers of the first page that lies wholly in b, and of the page after the last one.
func (p *Pages) whole(b []byte) (first, end int) {
	off := addressOf(b) - addressOf(p.mem)
	if off > uint64(len(p.mem)) || uint64(len(b)) > uint64(len(p.mem))-off {
		panic(fmt.Sprintf("guardpages: %d bytes at %#x; the memory has %d at %#x", len(b), addressOf(b), len(p.mem), addressOf(p.mem)))
	}
	first, end = int((off+PageSize-1)/PageSize), int((off+uint64(len(b)))/PageSize)
	return first, max(first, end)
}

// Flush waits until all accesses of this process that were found before the call have been reported.
func Flush() { reading.flush() }

// Close opens all pages. When it has returned, all accesses have been reported, and mem may be unmapped. A
// second Close waits for the first one, and does nothing. An access that is under way during Close is
// executed, and perhaps not reported.
func (p *Pages) Close() { p.closing.Do(p.close) }

func (p *Pages) close() {
	p.mu.Lock()
	p.closed = true
	for i := range p.states {
		p.states[i].Store(0)
	}
	_ = protect(p.mem, open)
	room.give(p.runs)
	p.runs = 0
	p.mu.Unlock()
	leave(p.slot)
	reading.flush()
	reading.remove(addressOf(p.mem))
}

// A budget bounds the runs of protected pages of all Pages, because each can need two more mappings in the
// kernel, and if there are none left, the Go runtime gets no memory.
type budget struct {
	most  func() int64
	taken atomic.Int64
}

var room = budget{most: sync.OnceValue(func() int64 {
	b, err := os.ReadFile("/proc/sys/vm/max_map_count")
	n, err2 := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64)
	if err != nil || err2 != nil {
		n = 65530 // the default
	}
	return n / 4
})}

// take takes room for one run, if there is some.
func (b *budget) take() bool {
	if b.taken.Add(1) <= b.most() {
		return true
	}
	b.taken.Add(-1)
	return false
}

// give gives the room of n runs back.
func (b *budget) give(n int) { b.taken.Add(int64(-n)) }
