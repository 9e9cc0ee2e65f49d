package engine

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/nicless/nicless/cqe"
	events "github.com/nicless/nicless/engine/internal/tap"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/internal/shm"
	"github.com/nicless/nicless/packet"
	"github.com/nicless/nicless/trace"
	"github.com/nicless/nicless/wqe"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// watch makes h watch what m says, with the smallest rings, and returns a function that reads what is new.
func (h *host) watch(m control.Watch) func() []trace.Event {
	h.Helper()
	m.Bytes = trace.LeastRing
	payload := control.Append(nil, control.OpWatch, 0, 1, &m)[control.HeaderSize:]
	ans, r, err := h.c.Call(control.OpWatch, payload)
	require.NoError(h, err)
	mem, err := shm.AttachReadOnly(r.Rings)
	require.NoError(h, err)
	h.Cleanup(func() { _ = mem.Close() })
	size := int(ans.(*control.Rings).Size)
	var rings []*trace.Ring
	for b := mem.Bytes(); len(rings) < int(ans.(*control.Rings).Rings); b = b[size:] {
		ring, err := trace.NewRing(b[:size:size])
		require.NoError(h, err)
		rings = append(rings, ring)
	}
	return func() (all []trace.Event) {
		for _, ring := range rings {
			all = append(all, recorded(h, ring)...)
		}
		return all
	}
}

// kindsOf returns the kinds of events, in one line.
func kindsOf(all []trace.Event) (s string) {
	for _, e := range all {
		s += e.Kind.String() + " "
	}
	return s
}

// The record has the bytes of each WQE and of each CQE, whichever path executes the WQE.
func TestWatchRecordsTheBytes(t *testing.T) {
	for name, post := range map[string]func(p, q *end, src, dst *key){
		"series": func(p, _ *end, src, dst *key) {
			for i := range 5 {
				p.write(ctrl(wqe.OpRDMAWrite), dst.raddr(8*i), src.data(8*i, 8))
			}
		},
		"unsignaled": func(p, _ *end, src, dst *key) {
			for i := range 4 {
				p.write(silent(wqe.OpRDMAWrite), dst.raddr(8*i), src.data(8*i, 8))
			}
			p.write(ctrl(wqe.OpRDMARead), dst.raddr(0), src.data(0, 8))
		},
		"sends": func(p, q *end, src, dst *key) {
			for i := range 3 {
				q.recv(dst.data(64*i, 64))
				p.write(ctrl(wqe.OpSend), src.data(0, 64))
			}
		},
		"several blocks": func(p, _ *end, src, dst *key) {
			p.write(ctrl(wqe.OpRDMAWrite), dst.raddr(0), pattern(300, 7))
			p.write(ctrl(wqe.OpRDMAWrite), dst.raddr(0), src.data(0, 1), src.data(2, 1), src.data(4, 1))
		},
		"long": func(p, _ *end, src, dst *key) {
			p.write(ctrl(wqe.OpRDMAWrite), dst.raddr(0), src.data(0, 60_000))
			p.write(ctrl(wqe.OpAtomicFA), dst.raddr(0), wqe.Atomic{SwapAdd: 1}, src.data(0, 8))
		},
		"failure": func(p, _ *end, src, dst *key) {
			p.write(ctrl(wqe.OpRDMAWrite), dst.raddr(1<<20), src.data(0, 8))
			p.write(ctrl(wqe.OpRDMAWrite), dst.raddr(0), src.data(0, 8))
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRepeatable(t, Config{Slice: 16 << 10})
			w := r.host("watcher")
			p, q := pair(r.host("p"), r.host("q"))
			src, dst := p.h.full(1<<16, 1), q.h.full(1<<16, 2)
			read := w.watch(control.Watch{All: 1})
			read()
			post(p, q, src, dst)
			posted := bytes.Clone(p.sq[:int(p.sent)*64])
			p.ring()
			r.settle()
			var wqes []byte
			cqes := map[uint32][]byte{}
			executed := uint16(0)
			for _, e := range read() {
				switch e.Kind {
				case trace.KindFetch:
					require.Equal(t, p.num, e.Queue)
					wqes = append(wqes[:int(e.Index)*64], e.Data...)
				case trace.KindCQE:
					for i := range int(e.Count) {
						b := e.CompletionAt(i)
						cqes[e.Queue] = append(cqes[e.Queue], b[:]...)
					}
				case trace.KindExecute, trace.KindFail:
					require.Equal(t, executed, e.Index)
					executed += e.Count
				}
			}
			require.Equal(t, posted[:len(wqes)], wqes)
			if name != "failure" {
				require.Equal(t, posted, wqes)
				require.Equal(t, p.sent, executed)
			}
			for _, c := range []*poller{p.scq, q.rcq} {
				n := len(c.all()) * cqe.Size
				require.True(t, bytes.Equal(c.ring[:n], cqes[c.num]), "CQ %#06x: %d bytes written, %d recorded", c.num, n, len(cqes[c.num]))
			}
		})
	}
}

// Events tell the life of a queue pair, of its WQEs and of keys, in order.
func TestWatchTellsALife(t *testing.T) {
	r := newRepeatable(t, Config{Slice: 4096})
	w, h := r.host("watcher"), r.host("p")
	read := w.watch(control.Watch{All: 1})
	require.Equal(t, "client ", kindsOf(read()))
	p, q := pair(h, h)
	steps := strings.Repeat("state queue ", 3) // of one queue pair: INIT, RTR, RTS
	require.Equal(t, "queue queue "+steps+steps, kindsOf(read()))
	src := h.full(1<<16, 1)
	p.post(ctrl(wqe.OpSend), src.data(0, 10))
	r.settle()
	all := read()
	require.Equal(t, "key doorbell fetch wait ", kindsOf(all))
	require.Equal(t, "no receive", trace.WaitReason(all[3].Value).String())
	info, err := trace.ParseKeyInfo(all[0].Data)
	require.NoError(t, err)
	require.Equal(t, trace.KeyInfo{Addr: src.addr, Length: 1 << 16, Client: info.Client}, info)
	q.recv(src.data(100, 10))
	r.settle()
	require.Equal(t, "doorbell fetch cqe cqe execute ", kindsOf(read()))
	p.post(ctrl(wqe.OpRDMAWrite), src.raddr(0), src.data(0, 10_000))
	r.settle()
	all = read()
	require.Equal(t, "doorbell fetch slice slice cqe execute ", kindsOf(all))
	require.Equal(t, uint64(4096), all[2].Value)
	require.Equal(t, uint64(10_000), all[5].Value)
	p.post(ctrl(wqe.OpRDMAWrite), wqe.Raddr{Addr: 1, RKey: src.key ^ 1}, src.data(0, 8))
	r.settle()
	all = read()
	require.Equal(t, "doorbell fetch explanation state fail cqe state ", kindsOf(all), "first the responder goes to error")
	require.Equal(t, uint64(cqe.RemoteAccess), all[4].Value)
	require.Contains(t, string(all[2].Data), "key-stale")
	require.Equal(t, uint16(trace.RTS)<<8|uint16(trace.ERR), all[6].Count)
	p.destroy()
	h.dereg(src.key)
	all = read()
	require.Equal(t, "state queue-gone key ", kindsOf(all))
	require.Equal(t, uint16(trace.KeyGone), all[2].Index)
	require.NoError(t, h.c.Close())
	require.Contains(t, kindsOf(read()), "client-gone")
}

// A watch ends with its client: then visits are the usual ones again.
func TestWatchEnds(t *testing.T) {
	if *watched {
		t.Skip("all queues stay watched")
	}
	r, p, q := duo(t, Config{})
	for range 2 * events.Most { // the numbers of watches are used again
		w := r.host("watcher")
		w.watch(control.Watch{All: 1})
		require.True(t, p.q.Aside && p.q.SQ.CQ.Aside && q.q.Aside)
		require.NoError(t, w.c.Close())
		require.False(t, p.q.Aside || p.q.SQ.CQ.Aside || q.q.Aside || p.q.RQ.CQ.Aside)
		require.Zero(t, p.h.c.Watched|p.h.c.Follows)
	}
}

func TestWatchRefuses(t *testing.T) {
	r, p, _ := duo(t, Config{})
	w := r.host("watcher")
	none, missing := control.CodeInvalid, control.CodeNotFound
	for want, m := range map[string]control.Watch{
		`all 0, QP 0x000000, pid 0, program ""; exactly one of them says what is watched`: {},
		`all 1, QP 0x000007, pid 0, program ""; exactly one`:                              {All: 1, QPN: 7},
		"rings of 1000 bytes; a power of two from 262144 to 1073741824 is possible":       {All: 1, Bytes: 1000},
		"rings of 9223372036854775808 bytes":                                              {All: 1, Bytes: 1 << 63},
		"there is no QP 0x000007 that this user may watch":                                {QPN: 7},
	} {
		code := none
		if m.QPN == 7 && m.All == 0 {
			code = missing
		}
		w.refused(code, want, control.OpWatch, &m, nil)
	}
	w.watch(control.Watch{QPN: p.num})
	w.refused(control.CodeLimit, "a client has one watch", control.OpWatch, &control.Watch{All: 1}, nil)
	for range events.Most - 1 {
		r.host("another").watch(control.Watch{Program: "x"})
	}
	r.host("one too many").refused(control.CodeLimit, fmt.Sprintf("this user has %d watches; %d of the device's %d are free for it", events.Most, events.Most, events.Most),
		control.OpWatch, &control.Watch{All: 1}, nil)
}

// Users see their own clients only; a queue pair of another user does not exist for them.
func TestWatchIsForOneUser(t *testing.T) {
	r := newRig(t, Config{})
	const alice, bob = 100_001, 100_002
	hosted := func(uid uint32, pid int) *host {
		c, err := r.d.nic().NewHosted("h", uid, nic.Hosted{PID: pid})
		require.NoError(t, err)
		t.Cleanup(func() { _ = c.Close() })
		h := &host{rig: r, base: 0x7000_0000_0000, c: c}
		h.mem, err = shm.Heap(regionSize)
		require.NoError(t, err)
		h.region = h.addRegion(h.base, h.mem)
		h.pd = h.allocPD()
		return h
	}
	a, b := hosted(alice, os.Getpid()), hosted(bob, os.Getpid())
	require.NoError(t, a.c.UAR.Seal())
	p := a.qp(control.QP{}, a.cq(control.CQ{LogSize: 4}), a.cq(control.CQ{LogSize: 4}))
	hosted(bob, 0).refused(control.CodeNotFound, "that this user may watch", control.OpWatch, &control.Watch{QPN: p.num}, nil)
	seen := hosted(bob, 0).watch(control.Watch{PID: uint32(os.Getpid())})
	mine := hosted(alice, 0).watch(control.Watch{PID: uint32(os.Getpid())})
	all := seen()
	require.Equal(t, "client ", kindsOf(all))
	require.Equal(t, b.c.Number, all[0].Queue)
	require.Equal(t, "client queue ", kindsOf(mine()))
	name, err := os.ReadFile("/proc/self/comm")
	require.NoError(t, err)
	byName := hosted(alice, 0).watch(control.Watch{Program: string(bytes.TrimSpace(name))})
	require.Equal(t, "client queue ", kindsOf(byName()))
}

// A watcher that is too slow learns how many events it has lost, and goes on with the newest.
func TestSlowWatcherLosesByCount(t *testing.T) {
	r, p, q := duo(t, Config{})
	src, dst := p.h.full(64, 1), q.h.full(64, 2)
	w := r.host("watcher")
	read := w.watch(control.Watch{QPN: p.num})
	read()
	for range 3000 {
		p.post(ctrl(wqe.OpRDMAWrite), dst.raddr(0), src.data(0, 8))
		r.settle()
		p.scq.one()
	}
	require.Empty(t, read(), "all of them were overwritten")
	p.post(ctrl(wqe.OpRDMAWrite), dst.raddr(0), src.data(0, 8))
	r.settle()
	all := read()
	require.Equal(t, "lost doorbell fetch cqe execute ", kindsOf(all))
	require.Equal(t, uint64(4*3000), all[0].Value, "each WRITE has 4 events")
	require.Equal(t, uint16(3000), all[4].Index)
}

// A client that changes a WQE while the device has it changes neither what is executed nor what is recorded.
func TestWatchedCopyIsExecuted(t *testing.T) {
	r, p, q := duo(t, Config{Burst: 1})
	src, dst := p.h.full(64, 1), q.h.full(64, 2)
	read := r.host("watcher").watch(control.Watch{QPN: p.num})
	read()
	for range 2 {
		p.write(ctrl(wqe.OpRDMAWrite), dst.raddr(0), src.data(0, 8))
	}
	p.ring()
	r.e.Step()                                      // executes the first, and has copied both
	binary.BigEndian.PutUint64(p.sq[64+16:], 1<<60) // the address of the second
	r.settle()
	var fetched [][]byte
	for _, e := range read() {
		if e.Kind == trace.KindFetch {
			fetched = append(fetched, e.Data)
		}
	}
	require.Len(t, fetched, 2)
	require.Len(t, fetched[0], 128)
	require.Equal(t, p.sq[64:128], fetched[1], "it was fetched again, because it was not executed")
	require.Equal(t, control.StateERR, p.state())
}

// Packets of a link are recorded at both ends, with their bytes; so is the link itself.
func TestWatchRecordsPackets(t *testing.T) {
	r := newRepeatable(t, Config{})
	c := r.newCable(nic.PortConfig{MTU: 1024}, nil)
	p, q := pair(r.host("p"), r.host("q"))
	read := r.host("watcher").watch(control.Watch{All: 1})
	all := read()
	require.Contains(t, kindsOf(all), "link link ")
	src, dst := p.h.full(4096, 1), q.h.full(4096, 2)
	read()
	p.post(ctrl(wqe.OpRDMAWrite), dst.raddr(0), src.data(0, 2000))
	r.settle()
	var sent, got []trace.Event
	for _, e := range read() {
		switch e.Kind {
		case trace.KindSent:
			sent = append(sent, e)
		case trace.KindReceived:
			got = append(got, e)
		}
	}
	require.Len(t, sent, 3, "two packets of the WRITE and an acknowledgement")
	require.Len(t, got, 3)
	for i, op := range []packet.Opcode{0x06, 0x08, 0x11} {
		h := packet.ParseBTH((*[packet.BTHSize]byte)(sent[i].Data))
		require.Equal(t, op, h.Opcode)
		require.Equal(t, sent[i].Data, got[i].Data, "as it was sent")
		require.Equal(t, sent[i].Value, got[i].Value)
	}
	require.Equal(t, uint64(28+1024), sent[0].Value)
	require.Equal(t, src.mem[:100], sent[0].Data[28:][:100])
	require.Equal(t, uint16(28), sent[0].Count)
	require.Equal(t, p.num, sent[0].Queue)
	require.Equal(t, q.num, got[0].Queue)
	require.Equal(t, q.num, sent[2].Queue, "the acknowledgement")
	c.ports[0].SetUp(false)
	all = read()
	require.Equal(t, "link ", kindsOf(all))
	require.Zero(t, all[0].Value)
	require.Equal(t, "cable", string(all[0].Data))
}

// Users share the numbers of watches as they share other resources.
func TestWatchesAreShared(t *testing.T) {
	r := newRig(t, Config{})
	client := func(uid uint32) *host {
		c, err := r.d.nic().NewHosted("h", uid, nic.Hosted{})
		require.NoError(t, err)
		t.Cleanup(func() { _ = c.Close() })
		return &host{rig: r, c: c}
	}
	const alice, bob = 100_001, 100_002
	for range events.Most / 2 {
		client(alice).watch(control.Watch{All: 1})
	}
	client(alice).refused(control.CodeLimit, "this user has 16 watches; 16 of the device's 32 are free for it",
		control.OpWatch, &control.Watch{All: 1}, nil)
	for range events.Most / 4 {
		client(bob).watch(control.Watch{All: 1})
	}
	client(bob).refused(control.CodeLimit, "this user has 8 watches; 8 of", control.OpWatch, &control.Watch{All: 1}, nil)
	r.host("own").watch(control.Watch{All: 1})
}

// The pages of a user's rings go back to the system when the watch ends, although the user still maps them.
func TestRingsDoNotOutliveTheirWatch(t *testing.T) {
	r := newRig(t, Config{})
	c, err := r.d.nic().NewHosted("h", 100_001, nic.Hosted{})
	require.NoError(t, err)
	ans, reply, err := c.Call(control.OpWatch, control.Append(nil, control.OpWatch, 0, 1,
		&control.Watch{All: 1, Bytes: trace.LeastRing})[control.HeaderSize:])
	require.NoError(t, err)
	require.Equal(t, uint32(trace.RingHeadSize+trace.LeastRing), ans.(*control.Rings).Size)
	flags, err := unix.FcntlInt(reply.Rings.Fd(), unix.F_GETFL, 0)
	require.NoError(t, err)
	require.Equal(t, unix.O_RDONLY, flags&unix.O_ACCMODE)
	var st unix.Stat_t
	require.NoError(t, unix.Fstat(int(reply.Rings.Fd()), &st))
	require.Equal(t, uint32(0o400), st.Mode&0o777)
	require.NotZero(t, st.Blocks)
	require.NoError(t, c.Close())
	require.NoError(t, unix.Fstat(int(reply.Rings.Fd()), &st))
	require.Zero(t, st.Blocks)
	require.NoError(t, reply.Rings.Close())
}

// A target of XRC belongs to the client that has made it. A watch of a client that has only opened it sees
// nothing of the target; when the owner leaves, the target is watched as its new owner is.
func TestWatchOfASharedTarget(t *testing.T) {
	if *watched {
		t.Skip("all queues are watched anyway")
	}
	r := newRig(t, Config{})
	a, b, c := r.host("a"), r.host("b"), r.host("c")
	x := newXRCWith(a, b, c)
	opened := c.openTarget(x.domain, x.q)
	c.c.Hosted.PID, b.c.Hosted.PID = 4711, 4712
	ofOpener, ofOwner := r.host("1"), r.host("2")
	opener := ofOpener.watch(control.Watch{PID: 4711})
	require.Zero(t, x.q.q.Watched)
	require.Zero(t, b.c.Watched)
	owner := ofOwner.watch(control.Watch{PID: 4712})
	require.NotZero(t, x.q.q.Watched)
	require.NotZero(t, x.q.q.Watched&b.c.Follows)
	require.Contains(t, kindsOf(owner()), "queue ")
	require.NotContains(t, kindsOf(opener()), "queue ")
	require.NoError(t, b.c.Close())
	require.Same(t, c.c.Client, opened.q.Client)
	require.Equal(t, c.c.Follows, opened.q.Watched)
	require.NoError(t, ofOpener.c.Close())
	require.NoError(t, ofOwner.c.Close())
	require.Zero(t, opened.q.Watched)
	require.False(t, opened.q.Aside)
}

// A watch tells queue pairs that their client has destroyed from those that go with it.
func TestWatchTellsWhyAQueuePairIsGone(t *testing.T) {
	s := newScene(t, Config{})
	read := s.host("watcher").watch(watchEverything)
	s.pass(0)
	destroyed, left := s.p.num, s.idle1.num // of one client
	s.p.h.call(control.OpDestroyQP, &control.QPN{QPN: destroyed}, &control.Empty{})
	require.NoError(t, s.p.h.c.Close())
	why := map[uint32]uint64{}
	for _, e := range read() {
		if e.Kind == trace.KindQueueGone {
			why[e.Queue] = e.Value
		}
	}
	require.Equal(t, map[uint32]uint64{destroyed: 0, left: trace.GoneWithClient}, why)
}
