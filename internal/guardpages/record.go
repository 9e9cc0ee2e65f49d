//go:build linux && amd64

package guardpages

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// A record has recordSize bytes: seven words of 8 bytes, then the kind. If the handler could read the stack
// of the thread, stackSize bytes of it follow, from the stack pointer on.
//
//	 0  address of the access
//	 8  owner of the page
//	16  address of the memory, as New got it
//	24  instruction pointer
//	32  stack pointer
//	40  frame pointer
//	48  error code of the processor
//	56  kind
const (
	recordSize = 64
	stackSize  = 2048
)

// Kinds of records.
const (
	kindFault = 0
	kindFlush = 1 // from flush; the address is a number of flushes
)

// errorWrite is the bit of the error code of a page fault that says that the access was a store.
const errorWrite = 2

// A reader reads the records of the handler, on a goroutine that there is while there are Pages. Its socket
// keeps the records one by one, and in their order.
type reader struct {
	life  sync.RWMutex  // held for writing while the goroutine begins or ends
	in    *os.File      // where the goroutine reads
	ended chan struct{} // closed when the goroutine has ended

	mu      sync.Mutex // the goroutine holds it too, but not while it reports
	pages   map[uint64]*Pages
	flushes map[uint64]chan struct{}
	flushed uint64 // number of the last flush
}

var reading = reader{pages: make(map[uint64]*Pages), flushes: make(map[uint64]chan struct{})}

// add says whom to report accesses to memory at base to.
func (r *reader) add(p *Pages, base uint64) error {
	r.life.Lock()
	defer r.life.Unlock()
	r.mu.Lock()
	n, taken := len(r.pages), r.pages[base] != nil
	if !taken {
		r.pages[base] = p
	}
	r.mu.Unlock()
	if taken {
		return fmt.Errorf("guardpages: memory at %#x is in use", base)
	}
	if n > 0 {
		return nil
	}
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		r.mu.Lock()
		delete(r.pages, base)
		r.mu.Unlock()
		return fmt.Errorf("guardpages: socketpair: %w", err)
	}
	atomic.StoreInt32(&records, int32(fds[1]))
	r.in = os.NewFile(uintptr(fds[0]), "guardpages")
	r.ended = make(chan struct{})
	go r.read(r.in, r.ended)
	return nil
}

// remove ends what add has begun. No thread is in the handler for memory at base.
func (r *reader) remove(base uint64) {
	r.life.Lock()
	defer r.life.Unlock()
	r.mu.Lock()
	delete(r.pages, base)
	n := len(r.pages)
	r.mu.Unlock()
	if n == 0 {
		_ = unix.Close(int(records)) // the goroutine sees the end of the records
		<-r.ended
		_ = r.in.Close()
	}
}

// read reads records until the socket to which they are written is closed.
func (r *reader) read(in *os.File, ended chan struct{}) {
	defer close(ended)
	b := make([]byte, recordSize+stackSize)
	for {
		n, err := in.Read(b)
		if err != nil || n < recordSize {
			return
		}
		word := func(at int) uint64 { return binary.NativeEndian.Uint64(b[at:]) }
		addr := word(0)
		r.mu.Lock()
		if word(56) == kindFlush {
			close(r.flushes[addr])
			delete(r.flushes, addr)
			r.mu.Unlock()
			continue
		}
		p := r.pages[word(16)]
		r.mu.Unlock()
		if p != nil {
			c := calls{ip: uintptr(word(24)), sp: word(32), fp: word(40), stack: b[recordSize:n]}
			p.report(Fault{Addr: addr, Write: word(48)&errorWrite != 0, Owner: word(8), Calls: c.list()})
		}
	}
}

// flush waits until all accesses that were found have been reported.
func (r *reader) flush() {
	r.life.RLock()
	defer r.life.RUnlock()
	quiesce()
	r.mu.Lock()
	if len(r.pages) == 0 {
		r.mu.Unlock()
		return
	}
	r.flushed++
	n, done := r.flushed, make(chan struct{})
	r.flushes[n] = done
	r.mu.Unlock()
	var b [recordSize]byte
	binary.NativeEndian.PutUint64(b[0:], n)
	binary.NativeEndian.PutUint64(b[56:], kindFlush)
	room := []unix.PollFd{{Fd: records, Events: unix.POLLOUT}}
	for {
		_, err := unix.Write(int(records), b[:])
		if !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EINTR) {
			break
		}
		_, _ = unix.Poll(room, -1)
	}
	<-done
}

// Lost returns how many accesses were found in this process and not reported, because the goroutine that
// reports them was too slow.
func Lost() uint64 { return atomic.LoadUint64(&lost) }
