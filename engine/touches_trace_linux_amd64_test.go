package engine

import (
	"encoding/binary"
	"errors"
	"fmt"
	"syscall"

	"github.com/nicless/nicless/internal/shm"
	"golang.org/x/sys/unix"
)

// canTrace says that a tracer can watch single accesses to memory on this processor. On arm64 it
// could not step through the loops of load-exclusive and store-exclusive, and qemu-user has no
// ptrace.
const canTrace = true

// A tracer watches one thread of another process. That process takes all rights to some pages away
// from itself, so each instruction that touches them faults. The tracer then notes the address, gives
// the page back for one instruction, steps, and takes the page away again. So it sees each access of
// an instruction: the address of its first byte, and whether it reads or writes. An instruction that
// does both, such as an atomic one, counts as writing.
//
// All methods must be called on one thread.
type tracer struct {
	tid  int
	info *shm.Region // memory for what the kernel says: a siginfo, or a status
	call uint64      // address of a system call instruction of the process
}

func newTracer(tid int) (*tracer, error) {
	info, err := shm.CreateSealed("siginfo", shm.PageSize)
	if err != nil {
		return nil, err
	}
	if err := unix.PtraceSeize(tid); err != nil {
		_ = info.Close()
		return nil, fmt.Errorf("PTRACE_SEIZE: %w", err)
	}
	shareCore(tid)
	return &tracer{tid: tid, info: info}, nil
}

// shareCore puts this thread and another one on one core. They never run at the same time, and a
// switch between two threads of a core is much faster than one from core to core. If it is not
// possible, all works the same.
func shareCore(tid int) {
	var all, one unix.CPUSet
	if unix.SchedGetaffinity(0, &all) != nil {
		return
	}
	for cpu := 0; ; cpu++ {
		if all.IsSet(cpu) {
			one.Set(cpu)
			break
		}
	}
	_ = unix.SchedSetaffinity(0, &one)
	_ = unix.SchedSetaffinity(tid, &one)
}

func (t *tracer) close() { _ = t.info.Close() }

// wait waits until the thread stops, and returns the signal that has stopped it.
func (t *tracer) wait() (unix.Signal, error) {
	for {
		var s unix.WaitStatus
		_, err := unix.Wait4(t.tid, &s, unix.WALL, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return 0, fmt.Errorf("wait4: %w", err)
		case s.Exited() || s.Signaled():
			return 0, fmt.Errorf("the thread has ended, status %#x", uint32(s))
		case s.Stopped():
			return s.StopSignal(), nil
		}
	}
}

// untilMark continues the thread until it has sent itself SIGSTOP.
func (t *tracer) untilMark() error {
	for {
		sig, err := t.wait()
		if err != nil || sig == unix.SIGSTOP {
			return err
		}
		if err := unix.PtraceCont(t.tid, int(sig)); err != nil {
			return err
		}
	}
}

// watch lets the thread run from one mark to the next, and then leaves it alone. It returns all
// accesses to the pages in ranges.
func (t *tracer) watch(ranges []extent) (list []seen, err error) {
	if err := t.untilMark(); err != nil {
		return nil, err
	}
	var regs syscall.PtraceRegs
	if err := syscall.PtraceGetRegs(t.tid, &regs); err != nil {
		return nil, err
	}
	t.call = regs.Rip - 2 // the thread is behind the system call that has sent the signal
	for {
		if err := unix.PtraceCont(t.tid, 0); err != nil {
			return nil, err
		}
		sig, err := t.wait()
		switch {
		case err != nil:
			return nil, err
		case sig == unix.SIGSTOP:
			return list, unix.PtraceDetach(t.tid)
		case sig != unix.SIGSEGV:
			continue // signals of the Go runtime can be lost
		}
		now, err := t.oneInstruction(ranges)
		if err != nil {
			return nil, err
		}
		list = append(list, now...)
	}
}

// oneInstruction lets the thread execute the instruction that has faulted.
func (t *tracer) oneInstruction(ranges []extent) (list []seen, err error) {
	var open []seen // page addresses; write: open for writing
	for sig := unix.SIGSEGV; sig != unix.SIGTRAP; {
		if sig == unix.SIGSEGV {
			addr, err := t.faultAddress()
			if err != nil {
				return nil, err
			}
			if !within(ranges, addr) {
				return nil, fmt.Errorf("fault at %#x, which is not watched", addr)
			}
			page, known := addr&^(shm.PageSize-1), false
			for i := range open {
				if open[i].addr == page {
					known, open[i].write = true, true
					list[i].write = true
					err = t.protect(page, unix.PROT_READ|unix.PROT_WRITE)
				}
			}
			if !known {
				open, list = append(open, seen{addr: page}), append(list, seen{addr: addr})
				err = t.protect(page, unix.PROT_READ)
			}
			if err != nil {
				return nil, err
			}
		}
		if err := unix.PtraceSingleStep(t.tid); err != nil {
			return nil, err
		}
		if sig, err = t.wait(); err != nil {
			return nil, err
		}
	}
	for _, o := range open {
		if err := t.protect(o.addr, unix.PROT_NONE); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// faultAddress returns si_addr of the signal that has stopped the thread.
func (t *tracer) faultAddress() (uint64, error) {
	_, _, e := unix.Syscall6(unix.SYS_PTRACE, unix.PTRACE_GETSIGINFO, uintptr(t.tid), 0, uintptr(t.info.Addr()), 0, 0)
	if e != 0 {
		return 0, fmt.Errorf("PTRACE_GETSIGINFO: %w", e)
	}
	return binary.LittleEndian.Uint64(t.info.Bytes()[16:]), nil
}

// protect makes the stopped thread call mprotect for a page.
func (t *tracer) protect(page uint64, prot int) error {
	var was syscall.PtraceRegs
	if err := syscall.PtraceGetRegs(t.tid, &was); err != nil {
		return err
	}
	regs := was
	regs.Rip, regs.Rax, regs.Rdi, regs.Rsi, regs.Rdx = t.call, unix.SYS_MPROTECT, page, shm.PageSize, uint64(prot)
	if err := syscall.PtraceSetRegs(t.tid, &regs); err != nil {
		return err
	}
	for sig := unix.Signal(0); sig != unix.SIGTRAP; {
		if err := unix.PtraceSingleStep(t.tid); err != nil {
			return err
		}
		var err error
		if sig, err = t.wait(); err != nil {
			return err
		}
		if sig == unix.SIGSEGV {
			return errors.New("the system call faults")
		}
	}
	if err := syscall.PtraceGetRegs(t.tid, &regs); err != nil {
		return err
	}
	if regs.Rax != 0 {
		return fmt.Errorf("mprotect: %w", unix.Errno(-regs.Rax))
	}
	return syscall.PtraceSetRegs(t.tid, &was)
}
