//go:build linux && (amd64 || arm64)

// Package mapholder lets this process end at once, even while the kernel cannot unmap its
// memory.
//
// A process that ends unmaps its memory. If another process is punching a hole into a mapped
// file (fallocate, MADV_REMOVE), the unmapping waits until the hole is made. That can take
// arbitrarily long if the other process has a low priority and a busy core. Until then the
// ending process keeps its descriptors, even after SIGKILL: its sockets still accept, its
// locks are held, and no other process is notified of its end.
//
// So there is a second process, the holder. It shares the memory map of this process, but not
// its descriptors, signals or threads. Of the two processes, the one that ends last unmaps
// the memory. The holder waits until the write end of a pipe is closed. This process has the
// write end open. A thread that ends gives up first its memory and then its descriptors. So the
// pipe is closed when no thread has the memory any more, or when this process has executed
// another program. Then the holder ends too. If the end of the holder takes long, only memory
// stays in use, but no socket and no lock. A child that was forked without exec has the pipe
// open too, so the holder does not end before that child.
//
// The holder runs code in memory that this process can change, with the rights that this
// process had when it started the holder. So the holder restricts itself with seccomp to
// reading the pipe and ending. An attacker who takes over this process gains nothing from the
// holder.
//
// This process may still have to wait if both processes are killed together. That happens when
// a control group or pid namespace ends, when the kernel kills them because memory is short, or
// when a command kills all processes of a program.
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

// Name is the holder's name in the output of ps. It differs from the device's, so that a
// command that kills the device by its name does not kill the holder. The holder's command
// line is that of this process.
const Name = "map-holder"

// shared is the part of this process's memory that the holder uses. It never moves.
type shared struct {
	end     int32  // the holder's descriptor: the read end of the pipe
	ready   uint32 // 1: the holder waits for the pipe; written by the holder
	name    [16]byte
	program unix.SockFprog // the seccomp filter
	//lint:ignore U1000 used by hold
	got byte // buffer for reading the pipe, to which nothing is ever written
}

// hold starts the holder, and returns its process id or a negative errno. All signals must be
// blocked, because signal handlers would run in the holder too.
func hold(p *shared) (pid int)

// allowed is the seccomp filter of the holder.
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
	mu     sync.Mutex // guards the fields below
	place  shared
	holder int // process id of the holder; 0: there is none
	ours   int // end of the pipe that this process has
)

// Start starts the holder, unless it runs already, and returns when the holder is ready. The
// holder costs this process one descriptor. Without a holder this process may take long to
// end; everything else works. Start fails on kernels before 5.9. It also fails if seccomp or an
// emulator refuses to start such a process. Safe for concurrent use.
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
	// The holder closes the descriptors 0 to end-1, so its end must not be descriptor 0.
	theirs, err := unix.FcntlInt(uintptr(ends[0]), unix.F_DUPFD_CLOEXEC, 3)
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

// clone starts the holder.
func clone(end int) (pid int, err error) {
	runtime.LockOSThread() // because the signals of this thread are blocked below
	defer runtime.UnlockOSThread()
	all, was := new(unix.Sigset_t), new(unix.Sigset_t)
	for i := range all.Val {
		all.Val[i] = ^all.Val[i]
	}
	place = shared{end: int32(end), program: unix.SockFprog{Len: uint16(len(allowed)), Filter: &allowed[0]}}
	copy(place.name[:], Name)
	if err := unix.PthreadSigmask(unix.SIG_SETMASK, all, was); err != nil {
		return 0, fmt.Errorf("mapholder: block signals: %w", err)
	}
	pid = hold(&place)
	if err := unix.PthreadSigmask(unix.SIG_SETMASK, was, nil); err != nil {
		return 0, fmt.Errorf("mapholder: unblock signals: %w", err)
	}
	if pid < 0 {
		return 0, fmt.Errorf("mapholder: clone: %w", unix.Errno(-pid))
	}
	return pid, nil
}

// inPlace waits until the holder is ready, that is, until it has closed the inherited
// descriptors and waits for the pipe.
func inPlace() error {
	for atomic.LoadUint32(&place.ready) == 0 {
		if ended(holder) {
			return errors.New("mapholder: the kernel has no close_range (Linux 5.9) or no seccomp filters")
		}
		time.Sleep(50 * time.Microsecond)
	}
	return nil
}

// ended reports whether a holder has ended. A holder sends no signal when it ends, so wait4
// needs the flag __WCLONE.
func ended(pid int) bool {
	n, err := unix.Wait4(pid, nil, unix.WNOHANG|unix.WCLONE, nil)
	return n != 0 && err != unix.EINTR
}
