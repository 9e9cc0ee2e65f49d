// Package mapholder lets this process end at once, even while the kernel cannot take
// down its memory.
//
// A process that ends unmaps its memory, and for a file that another process is
// punching holes into (fallocate, MADV_REMOVE) that waits until the hole is made: as
// long as the other one likes, if it runs at a low priority on a busy core. Until then
// the process that ends keeps its descriptors: its sockets still accept, its locks are
// held, nobody is told that it has gone, and SIGKILL has been sent already.
//
// So there is a second process, the holder, which shares the memory map of this one, but
// not its descriptors, signals or threads. The memory is taken down by the last of the
// two that ends. The holder waits for the end of a pipe that this process has open: a
// thread gives up its descriptors after its memory, so the pipe ends when no thread has
// the memory any more, or when this process has executed another program. Then the
// holder ends too. If that takes long, it keeps memory, and no socket or lock. (A child
// that was forked without exec has the pipe open as well, and so keeps the holder.)
//
// The holder runs code in memory that this process can change, with the rights that this
// process had when it made it. So the holder lets itself do no more than read the pipe
// and end (seccomp): who takes over this process gains nothing.
//
// Where both are killed at once this process may have to wait as before: by the end of a
// control group or of a pid namespace, by the kernel for want of memory, or by who kills
// all processes of a program.
package mapholder

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// Name is what ps shows for the holder; the command line is that of this process. It is
// none that somebody who kills the device by name would match.
const Name = "map-holder"

// shared is what the holder uses of this process's memory. It never moves.
type shared struct {
	end     int32  // its descriptor, of the pipe's end
	ready   uint32 // 1: it waits; written by the holder
	name    [16]byte
	program unix.SockFprog // of seccomp
	//lint:ignore U1000 used by hold
	got byte // from the pipe: nobody writes there
}

// hold makes the holder, and returns its number or a negative errno. All signals must be
// blocked, since handlers would run in the holder as they do here.
func hold(p *shared) (pid int)

// allowed is the filter of the holder's system calls.
var allowed = [...]unix.SockFilter{
	{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 4}, // seccomp_data.arch
	{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: arch, Jf: 3},
	{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 0}, // seccomp_data.nr
	{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.SYS_READ, Jt: 2},
	{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.SYS_EXIT_GROUP, Jt: 1},
	{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_KILL_PROCESS},
	{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
}

var (
	mu     sync.Mutex // of what follows
	place  shared
	holder int // number of the process; 0: there is none
	ours   int // this process's end of the pipe
)

// Start starts the holder, unless it runs, and returns when it is in place. It costs
// this process a descriptor. Without a holder this process may take long to end, and
// nothing else is different. The error is the kernel's: it may be too old (5.9 is
// needed), and seccomp or an emulator may refuse such a process. Safe for concurrent use.
func Start() error {
	mu.Lock()
	defer mu.Unlock()
	if holder != 0 {
		if !ended(holder) {
			return nil
		}
		holder = 0
		_ = unix.Close(ours)
	}
	var ends [2]int
	if err := unix.Pipe2(ends[:], unix.O_CLOEXEC); err != nil {
		return fmt.Errorf("mapholder: pipe: %w", err)
	}
	theirs, err := unix.FcntlInt(uintptr(ends[0]), unix.F_DUPFD_CLOEXEC, 3) // never 0
	_ = unix.Close(ends[0])
	if err == nil {
		holder, err = clone(theirs)
		_ = unix.Close(theirs)
	}
	if err == nil {
		err = inPlace()
	}
	if err != nil {
		holder = 0
		_ = unix.Close(ends[1])
		return err
	}
	ours = ends[1]
	return nil
}

// clone makes the holder.
func clone(end int) (pid int, err error) {
	runtime.LockOSThread() // whose signals are blocked
	defer runtime.UnlockOSThread()
	all, was := new(unix.Sigset_t), new(unix.Sigset_t)
	for i := range all.Val {
		all.Val[i] = ^all.Val[i]
	}
	place = shared{end: int32(end), program: unix.SockFprog{Len: uint16(len(allowed)), Filter: &allowed[0]}}
	copy(place.name[:], Name)
	if err := unix.PthreadSigmask(unix.SIG_SETMASK, all, was); err != nil {
		return 0, fmt.Errorf("mapholder: blocking signals: %w", err)
	}
	pid = hold(&place)
	if err := unix.PthreadSigmask(unix.SIG_SETMASK, was, nil); err != nil {
		return 0, fmt.Errorf("mapholder: signals: %w", err)
	}
	if pid < 0 {
		return 0, fmt.Errorf("mapholder: clone: %w", unix.Errno(-pid))
	}
	return pid, nil
}

// inPlace waits until the holder has closed what is not its own, and waits itself.
func inPlace() error {
	for atomic.LoadUint32(&place.ready) == 0 {
		if ended(holder) {
			return errors.New("mapholder: the kernel has no close_range (Linux 5.9) or no seccomp filters")
		}
		time.Sleep(50 * time.Microsecond)
	}
	return nil
}

// ended reports whether a holder has ended. It sends no signal then, and has to be asked
// for as the child of a clone.
func ended(pid int) bool {
	n, err := unix.Wait4(pid, nil, unix.WNOHANG|unix.WCLONE, nil)
	return n != 0 && err != unix.EINTR
}
