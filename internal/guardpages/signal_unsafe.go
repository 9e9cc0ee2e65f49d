//go:build linux && amd64

package guardpages

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// mostSlots is how many mappings can have protected pages at a time.
const mostSlots = 256

// A slot says to the handler which memory has pages that may be protected. signal_linux_amd64.s knows its
// layout.
type slot struct {
	base   uintptr        // address of the memory; changes only while end is 0
	end    uintptr        // address after the memory; 0: the slot is free
	states unsafe.Pointer // *uint64 for each page: its owner, or 0 if it is open; nil: Close was called
	tries  int64          // after Close: how often the handler lets an access be tried again
}

// The handler uses these variables. Those who change slots hold tableMu.
var (
	slots   [mostSlots]slot
	active  uint32 // number of threads in the handler
	records int32  // the socket to which the handler writes
	lost    uint64 // number of records for which the socket had no room

	//lint:ignore U1000 the handler reads it
	previous uintptr // the handler that was there before
)

// patience is slot.tries after Close: more than there are threads that can have been on their way.
const patience = 1 << 14

var tableMu sync.Mutex

// enter puts memory into the table. It returns the number of the slot, or -1 if all are in use.
func enter(mem []byte, states []atomic.Uint64) int {
	base := uintptr(unsafe.Pointer(unsafe.SliceData(mem)))
	end := base + uintptr(len(mem))
	tableMu.Lock()
	defer tableMu.Unlock()
	at := -1
	for i := range slots {
		s := &slots[i]
		gone := atomic.LoadPointer(&s.states) == nil
		if gone && s.base < end && base < s.end { // closed, at addresses that are in use again
			atomic.StoreUintptr(&s.end, 0)
		}
		if gone && (at < 0 || atomic.LoadUintptr(&s.end) == 0) {
			at = i
		}
	}
	if at < 0 {
		return -1
	}
	s := &slots[at]
	atomic.StoreUintptr(&s.end, 0)
	quiesce()
	atomic.StoreUintptr(&s.base, base)
	atomic.StorePointer(&s.states, unsafe.Pointer(unsafe.SliceData(states)))
	atomic.StoreUintptr(&s.end, end)
	return at
}

// leave takes memory out of the table. All its pages are open. When leave has returned, the handler does not
// use the states any more.
func leave(at int) {
	tableMu.Lock()
	defer tableMu.Unlock()
	s := &slots[at]
	atomic.StoreInt64(&s.tries, patience)
	atomic.StorePointer(&s.states, nil)
	quiesce()
}

// quiesce waits until no thread is in the handler that was there when quiesce was called. A thread is there
// for some microseconds, and waits for nothing.
func quiesce() {
	for atomic.LoadUint32(&active) != 0 {
		runtime.Gosched()
	}
}

// handler is the signal handler. Only the kernel calls it.
//
//lint:ignore U1000 handlerAddress returns its address
func handler()

func handlerAddress() uintptr

// A sigaction is the kernel's struct sigaction.
type sigaction struct {
	handler, flags, restorer uintptr
	mask                     uint64
}

// install makes handler the handler of SIGSEGV. All that the Go runtime has set for its own handler remains:
// the stack for signals, and that they are blocked meanwhile.
var install = sync.OnceValue(func() error {
	var a sigaction
	if err := rtSigaction(nil, &a); err != nil {
		return err
	}
	const needed = 0x4 | 0x08000000 // SA_SIGINFO, SA_ONSTACK
	if a.flags&needed != needed || a.handler <= 1 {
		return fmt.Errorf("guardpages: SIGSEGV has handler %#x with flags %#x, which is not the handler of Go", a.handler, a.flags)
	}
	previous = a.handler
	a.handler = handlerAddress()
	return rtSigaction(&a, nil)
})

func rtSigaction(set, old *sigaction) error {
	_, _, errno := unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(unix.SIGSEGV),
		uintptr(unsafe.Pointer(set)), uintptr(unsafe.Pointer(old)), unsafe.Sizeof(set.mask), 0, 0)
	if errno != 0 {
		return fmt.Errorf("guardpages: rt_sigaction: %w", errno)
	}
	return nil
}

// addressOf returns the address of b.
func addressOf(b []byte) uint64 { return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) }

// calledBefore returns which function the call instruction before pc calls, if it is a call of a fixed
// address, and otherwise 0. pc and the 5 bytes before it are in a Go function.
func calledBefore(pc uintptr) uintptr {
	at := pc - 5
	code := *(**[5]byte)(unsafe.Pointer(&at)) // code is no memory of the garbage collector, and does not move
	if code[0] != 0xe8 {
		return 0
	}
	return pc + uintptr(int32(uint32(code[1])|uint32(code[2])<<8|uint32(code[3])<<16|uint32(code[4])<<24))
}
