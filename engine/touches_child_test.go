package engine

import (
	"bufio"
	"encoding/json"
	"os"
	"runtime"
	"runtime/debug"
	"testing"

	"github.com/nicless/nicless/doorbell"
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/share"
	"github.com/nicless/nicless/internal/shm"
	cost "github.com/nicless/nicless/model"
	"github.com/nicless/nicless/model/traffic"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// A watching is what the process that is watched says before it lets the engine work.
type watching struct {
	Name    string
	TID     int
	Watched []extent
	Regions []located
	Want    []touch
	Error   string // in place of all that: what has gone wrong
}

// One of these variables is set for a test binary that is the process that is watched: the engine
// in it, or a program that posts and polls.
const (
	childEnv    = "NICLESS_TEST_TOUCHES"
	programsEnv = "NICLESS_TEST_TOUCHES_OF_PROGRAMS"
)

// A stepped is the process that is watched. It speaks to the test by pipes.
type stepped struct {
	t    *testing.T
	says *json.Encoder
	acks *bufio.Reader
}

// TestTouchesChild is no test, but the process that TestTouches watches.
func TestTouchesChild(t *testing.T) {
	rows, run := touchRows, (*stepped).run
	all := os.Getenv(childEnv)
	if all == "" {
		rows, run = programRows, (*stepped).runPrograms
		all = os.Getenv(programsEnv)
	}
	if all == "" {
		t.Skip("TestTouches runs it")
	}
	c := &stepped{t, json.NewEncoder(os.NewFile(3, "windows")), bufio.NewReader(os.Stdin)}
	for _, r := range share.Of(rows(all == "true")) {
		t.Run(r.name, func(t *testing.T) {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			c.t = t
			run(c, r)
		})
	}
}

// watched lets f run while the test watches the memory of w.
func (c *stepped) watched(w watching, f func()) {
	w.TID = unix.Gettid()
	require.NoError(c.t, c.says.Encode(w))
	_, err := c.acks.ReadByte() // now the test watches
	require.NoError(c.t, err)
	protect := func(prot int) {
		for _, e := range w.Watched {
			_, _, errno := unix.RawSyscall(unix.SYS_MPROTECT, uintptr(e.Addr), uintptr(e.Size), uintptr(prot))
			if errno != 0 {
				panic(errno)
			}
		}
	}
	mark := func() {
		_, _, _ = unix.RawSyscall(unix.SYS_TGKILL, uintptr(unix.Getpid()), uintptr(w.TID), uintptr(unix.SIGSTOP))
	}
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	protect(unix.PROT_NONE)
	mark()
	f()
	mark()
	protect(unix.PROT_READ | unix.PROT_WRITE)
}

// A stage is two connected queue pairs, whose memory can be watched.
type stage struct {
	*rig
	c       *stepped
	row     touchRow
	a, b    *host
	p, q    *end
	srq     *srqEnd
	source  *traffic.Source
	x       *traffic.Expander
	regions []located
}

// mappedHost is host with memory that can be protected.
func (r *rig) mappedHost(name string) *host {
	h := &host{rig: r, base: 0x7000_0000_0000}
	var err error
	h.c, err = r.d.nic().NewLocal(name)
	require.NoError(r, err)
	r.Cleanup(func() { _ = h.c.Close() })
	h.mem, err = shm.CreateSealed(name, hostSize/2)
	require.NoError(r, err)
	h.region = h.addRegion(h.base, h.mem)
	h.pd = h.allocPD()
	return h
}

// stage makes a stage for a row.
func (c *stepped) stage(r touchRow) *stage {
	if r.form.Ring == 0 {
		r.form.Ring = 16
	}
	r.form.Requests = (r.warm + 1) * max(r.form.Batch, 1)
	s := &stage{rig: newRig(c.t, Config{}), c: c, row: r}
	s.e.Hooks.NoFastPath = r.form.SlowPath
	holdClock(s.e)
	var err error
	s.source, err = traffic.NewSource(r.op, r.bytes, r.form)
	require.NoError(c.t, err, r.name)
	s.build()
	return s
}

// run executes the traffic of one row, and has the last doorbell watched.
func (c *stepped) run(r touchRow) {
	s := c.stage(r)
	for range r.warm {
		s.doorbell(func(_ string, _ []cost.Access, step func()) { step() })
	}
	s.doorbell(s.watch)
}

// build makes the clients, the queues and the memory that the source needs.
func (s *stage) build() {
	s.a, s.b = s.mappedHost("a"), s.mappedHost("b")
	c := s.source.Config()
	cq := control.CQ{LogSize: log2of(c.SendCQ), LogCQE: log2of(c.EntrySize)}
	cqOf := func(h *host) *poller {
		cq := cq
		if c.Events {
			cq.Channel, _ = h.channel()
		}
		made := h.cq(cq)
		q := h.e.CQs[made.num]
		q.Counts, q.Seen = object.In24Bits, q.Taken // as after the first lap, see object.Counting
		return made
	}
	ca, cb := cqOf(s.a), cqOf(s.b)
	mine := control.QP{LogSQ: log2of(c.SendBlocks)}
	if c.BlueFlame != 0 {
		mine.UAR, mine.BlueFlame = 1, uint8(c.BlueFlame)
	}
	theirs := control.QP{LogRQ: log2of(c.Receives), LogRQStride: log2of(c.Stride)}
	if c.InlineResults {
		mine.Scatter, theirs.Scatter = control.ScatterRequester, control.ScatterResponder
	}
	s.p = s.a.qp(mine, ca, ca)
	if c.SRQ {
		s.srq = s.b.srq(control.SRQ{LogSize: log2of(c.Receives), LogStride: log2of(c.Stride)})
		theirs = control.QP{NoReceive: 1, SRQN: s.srq.num, Scatter: theirs.Scatter}
	}
	s.q = s.b.qp(theirs, cb, cb)
	s.p.up(s.q)
	s.q.up(s.p)
	s.p.q.Conn.Peer = s.q.q // so that the first WQE takes no other path than the others

	rights := control.AccessAll &^ uint32(control.AccessZeroBased)
	lay := func(m *traffic.Memory, h *host) {
		mem, addr := h.take(int(m.Size))
		m.Addr, m.Key = addr, h.reg(h.pd, addr, len(mem), rights)
		s.locate(m.Region, h, mem, 0)
	}
	far := s.b
	if s.row.op == "copy" {
		far = s.a
	}
	lay(&s.source.Near, s.a)
	lay(&s.source.Far, far)
	s.source.QPN = s.p.num
	var err error
	s.x, err = traffic.New(s.source.Config())
	require.NoError(s, err)

	s.locate(traffic.SendRing, s.a, s.p.sq, 0)
	s.locate(traffic.HostRecord, s.a, s.p.rec, 0)
	s.locate(traffic.SendCQ, s.a, ca.ring, 0)
	s.locate(traffic.SendCI, s.a, ca.rec, 0)
	s.locate(traffic.PeerRecord, s.b, s.q.rec, 0)
	s.locate(traffic.RecvCQ, s.b, cb.ring, 0)
	s.locate(traffic.RecvCI, s.b, cb.rec, 0)
	if s.srq != nil {
		s.locate(traffic.RecvRing, s.b, s.srq.ring, 0)
		s.locate(traffic.SRQRecord, s.b, s.srq.rec, 0)
	} else {
		s.locate(traffic.RecvRing, s.b, s.q.rq, 0)
	}
	s.regions = append(s.regions, located{traffic.Registers, extent{s.a.c.UAR.Addr() + uint64(mine.UAR)*doorbell.UARPageSize, doorbell.UARPageSize}, 0},
		located{traffic.PeerPage, extent{s.b.c.UAR.Addr(), doorbell.UARPageSize}, 0})
}

// locate says where a region is. Its size is rounded up to whole lines.
func (s *stage) locate(region string, h *host, mem []byte, first int) {
	off, ok := h.mem.Offset(mem)
	require.True(s, ok)
	size := uint64(len(mem)+cost.LineSize-1) &^ (cost.LineSize - 1)
	s.regions = append(s.regions, located{region, extent{h.mem.Addr() + off, size}, first})
}

func log2of(n int) (log uint8) {
	for n > 1 {
		n, log = n/2, log+1
	}
	return log
}
