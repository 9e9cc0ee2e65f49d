package engine

import (
	"fmt"
	"os"
	"strconv"
	"testing"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/engine/internal/process"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/wqe"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// A distant is a key of memory of another process, with queue pairs that use the key.
type distant struct {
	r    *rig
	p, q *end
	key  uint32
	said fmt.Stringer
}

func newDistant(t *testing.T, pid int, g nic.Guard) *distant {
	t.Helper()
	conf, said := logged()
	d := &distant{said: said}
	d.r, d.p, d.q = duo(t, conf)
	require.NoError(t, d.q.h.c.ShareProcess(pid, g))
	d.key = d.q.h.reg(d.q.h.pd, childMemory, 4096, control.AccessAll&^control.AccessZeroBased)
	return d
}

func (d *distant) write(text string) uint16 {
	return d.p.post(ctrl(wqe.OpRDMAWrite), wqe.Raddr{Addr: childMemory, RKey: d.key}, []byte(text))
}

// dead tries to write and to read with the key; neither may have an effect. Before each try
// the device does not know any more that the process is gone.
func (d *distant) dead(why string) {
	d.r.Helper()
	program := d.q.h.c.Process
	local := d.p.h.full(64, 3)
	before := append([]byte(nil), local.mem...)
	for _, op := range []wqe.Opcode{wqe.OpRDMAWrite, wqe.OpRDMARead, wqe.OpAtomicFA} {
		program.Gone.Store(process.Present)
		var index uint16
		to := wqe.Raddr{Addr: childMemory, RKey: d.key}
		switch op {
		case wqe.OpAtomicFA:
			index = d.p.post(ctrl(op), to, wqe.Atomic{SwapAdd: 1}, local.data(0, 8))
		default:
			index = d.p.post(ctrl(op), to, local.data(0, 64))
		}
		d.r.settle()
		d.r.failed(d.p.scq.one(), cqe.RemoteAccess, index)
		require.EqualValues(d.r, process.Replaced, program.Gone.Load(), "%v", op)
		d.r.same(before, local.mem, "what is read of a stranger")
		d.p.reset(d.q)
		d.q.reset(d.p)
	}
	require.Contains(d.r, d.said.String(), why)
	err := d.q.h.try(control.OpRegMR, &control.MR{PDN: d.q.h.pd, Addr: childMemory, Length: 64}, &control.Key{}, nil)
	require.ErrorContains(d.r, err, why)
}

const replacedText = "ESRCH: the process has executed another program or has ended"

// A program that a process executes in place of another program keeps the pid, and often
// has memory at the same addresses. Keys of the old program give no access to that memory.
func TestKeysDieWithTheProgram(t *testing.T) {
	c := startChild(t, 4096)
	d := newDistant(t, c.cmd.Process.Pid, c.at)
	d.write("written!")
	d.r.settle()
	d.p.good()
	require.Equal(t, fmt.Sprintf("%x", "written!"), c.ask())
	c.execute()
	was := c.ask()
	require.Equal(t, fmt.Sprintf("%x", pattern(8, 42)), was)
	d.dead(replacedText)
	require.Equal(t, was, c.ask(), "memory of the new program")
}

// The pid of a process that has ended is given to another process. No key gives access to
// the memory of the new process.
func TestKeysDieWithTheNumber(t *testing.T) {
	c := startChild(t, 4096)
	pid := c.cmd.Process.Pid
	d := newDistant(t, pid, c.at)
	c.stop()
	stranger := childOf(t, pid)
	was := stranger.ask()
	d.dead(replacedText)
	require.Equal(t, was, stranger.ask(), "memory of a stranger")
	require.ErrorContains(t, newRig(t, Config{}).host("late").c.ShareProcess(pid, c.at), replacedText, "it has ended before it was shared")
}

// childOf starts children until one has this pid, which has become free.
func childOf(t *testing.T, pid int) *child {
	t.Helper()
	const last = "/proc/sys/kernel/ns_last_pid"
	for range 100 {
		if err := os.WriteFile(last, []byte(strconv.Itoa(pid-1)), 0o600); err != nil {
			t.Skipf("processes cannot be numbered here (root and CONFIG_CHECKPOINT_RESTORE are needed): %v", err)
		}
		c := startChild(t, 4096)
		if c.cmd.Process.Pid == pid {
			return c
		}
		c.stop()
	}
	t.Fatalf("no process got number %d again", pid)
	return nil
}

// If the process has unmapped its guard, or has other bytes there, its other memory is not
// accessed either.
func TestGuard(t *testing.T) {
	page := os.Getpagesize()
	for name, spoil := range map[string]func(mem []byte){
		"unmapped":    func(mem []byte) { require.NoError(t, unix.Mprotect(mem, unix.PROT_NONE)) },
		"other bytes": func(mem []byte) { mem[3]++ },
	} {
		t.Run(name, func(t *testing.T) {
			mem, err := unix.Mmap(-1, 0, page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
			require.NoError(t, err)
			defer unix.Munmap(mem)
			g := guardAt(mem)
			r, p, q := duo(t, Config{})
			require.NoError(t, q.h.c.ShareProcess(os.Getpid(), g))
			far := q.h.keyOf(q.h.private, 64, control.AccessAll&^control.AccessZeroBased)
			local := p.h.full(64, 3)
			p.post(ctrl(wqe.OpRDMARead), far.raddr(0), local.data(0, 64))
			r.settle()
			p.good()
			spoil(mem)
			index := p.post(ctrl(wqe.OpRDMARead), far.raddr(0), local.data(0, 64))
			r.settle()
			r.failed(p.scq.one(), cqe.RemoteAccess, index)
			require.EqualValues(t, process.Replaced, q.h.c.Process.Gone.Load())
			require.ErrorContains(t, newRig(t, Config{}).host("late").c.ShareProcess(os.Getpid(), g), replacedText)
		})
	}
}
