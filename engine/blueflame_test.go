package engine

import (
	"encoding/binary"
	"testing"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/doorbell"
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/shm"
	"github.com/nicless/nicless/wqe"
	"github.com/stretchr/testify/require"
)

// postBlueFlame writes the last WQE to the register if the WQE is one block. For a longer WQE
// it writes only the 8-byte doorbell to the register. It does not update the record.
func (p *end) postBlueFlame() {
	last := p.sent - 1
	block := (*[wqe.BlockSize]byte)(p.sq[int(last)*wqe.BlockSize%len(p.sq):])
	half := p.q.SQ.BlueFlame.Half[p.half&1]
	p.half++
	if h := object.ParseHead((*[wqe.CtrlSize]byte)(block[:])); h.Place() != object.Place(p.num, uint64(last)) || h.Blocks() != 1 {
		half.PublishFirst(uint64(doorbell.MakeRing(p.sent, p.num)))
		return
	}
	half.PublishHead(block)
}

// burning returns a scene in which the queue pair p has a BlueFlame register. p has sent one
// WRITE, so it has found its peer.
func burning(t *testing.T, cfg Config) *scene {
	t.Helper()
	s := &scene{rig: newRig(t, cfg)}
	a, b := s.host("p"), s.host("q")
	ca, cb := a.cq(control.CQ{LogSize: 4}), b.cq(control.CQ{LogSize: 4})
	s.p, s.q = a.qp(control.QP{UAR: 1, BlueFlame: 4}, ca, ca), b.qp(control.QP{}, cb, cb)
	s.local, s.far = a.full(256, 1), b.full(256, 7)
	s.p.up(s.q)
	s.q.up(s.p)
	s.p.post(ctrl(wqe.OpRDMAWrite), s.far.raddr(0), s.local.data(0, 8))
	s.settle()
	s.p.good()
	return s
}

// lay writes the WQE of an 8-byte WRITE to the ring and does not announce it.
func (s *scene) lay(off int) {
	s.p.write(ctrl(wqe.OpRDMAWrite), s.far.raddr(off), s.local.data(off, 8))
}

// A WQE in the register is executed before the record announces it, and only once.
func TestFlame(t *testing.T) {
	c, said := logged()
	s := burning(t, c)
	for i := range 40 { // more than the ring has blocks
		s.lay(8 * (i%30 + 1))
		s.p.postBlueFlame()
		s.settle()
		w := s.p.scq.one()
		require.Equal(t, unharmed, w.Syndrome)
		require.Equal(t, s.p.sent-1, w.Counter)
		s.same(s.local.mem[:8*(i%30+1)+8], s.far.mem[:8*(i%30+1)+8], "written")
		if i%3 != 0 { // so that the record is sometimes behind by several blocks
			s.p.ring()
			s.settle()
			s.p.scq.none()
		}
	}
	require.Equal(t, uint64(s.p.sent), s.p.q.SQ.Done)
	require.Empty(t, said.String())
}

// If the register holds anything but the whole next WQE, the device ignores it. When the
// record announces the WQE, the device executes it from the ring.
func TestFlameThatIsNone(t *testing.T) {
	for _, row := range []struct {
		name string
		put  func(s *scene, half *shm.Block, b *[wqe.BlockSize]byte)
	}{
		{"another index", func(_ *scene, half *shm.Block, b *[wqe.BlockSize]byte) { b[2]++; half.PublishHead(b) }},
		{"another queue", func(_ *scene, half *shm.Block, b *[wqe.BlockSize]byte) { b[6]++; half.PublishHead(b) }},
		{"ds 0", func(_ *scene, half *shm.Block, b *[wqe.BlockSize]byte) { b[7] = 0; half.PublishHead(b) }},
		{"two blocks", func(_ *scene, half *shm.Block, b *[wqe.BlockSize]byte) { b[7] = 5; half.PublishHead(b) }},
		{"a doorbell", func(s *scene, half *shm.Block, _ *[wqe.BlockSize]byte) {
			half.PublishFirst(uint64(doorbell.MakeRing(s.p.sent, s.p.num)))
		}},
		{"an unknown key", func(_ *scene, half *shm.Block, b *[wqe.BlockSize]byte) { b[38]++; half.PublishHead(b) }},
		{"an unknown opcode", func(_ *scene, half *shm.Block, b *[wqe.BlockSize]byte) { b[3] = 0x3f; half.PublishHead(b) }},
		{"nothing in the other half too", func(s *scene, half *shm.Block, b *[wqe.BlockSize]byte) {
			s.p.q.SQ.BlueFlame.Half[1].PublishFirst(7)
			half.PublishFirst(9)
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := burning(t, Config{})
			s.p.q.Suspicion.Index, s.p.q.Suspicion.QPN = true, true // so that index and QPN are not explained
			was := append([]byte(nil), s.far.mem...)
			s.lay(64)
			b := *(*[wqe.BlockSize]byte)(s.p.sq[wqe.BlockSize:])
			row.put(s, s.p.q.SQ.BlueFlame.Half[0], &b)
			s.settle()
			s.p.scq.none()
			s.same(was, s.far.mem, "the target")
			s.p.ring()
			s.settle()
			s.p.good()
			s.same(s.local.mem[64:72], s.far.mem[64:72], "written")
			require.Equal(t, control.StateRTS, s.p.state())
		})
	}
}

// A WQE that was executed from the ring, and is still in the register, is not executed again
// when its 16-bit index recurs.
func TestFlameOfAnEarlierRound(t *testing.T) {
	for _, seen := range []bool{false, true} {
		s := burning(t, Config{})
		s.lay(64)
		if seen {
			s.p.postBlueFlame()
			s.p.ring()
		} else {
			s.p.ring()
			s.settle()
			s.p.postBlueFlame() // written late, as by a poster that writes the record first
		}
		s.settle()
		s.p.good()
		s.p.q.SQ.Done, s.p.sent = s.p.q.SQ.Done-1+1<<16, s.p.sent-1
		s.p.ring()
		s.settle()
		s.p.scq.none()
	}
}

// A WQE that was in the register before RTS is not executed, even when its index is that of the
// next WQE.
func TestFlameOfAnEarlierLife(t *testing.T) {
	s := burning(t, Config{})
	s.lay(64)
	s.p.postBlueFlame()
	s.p.toState(control.StateRST)
	s.p.sent = 0
	s.p.ring()
	s.p.up(s.q)
	s.lay(8)
	s.p.ring()
	s.settle()
	s.p.good()
	require.Equal(t, uint64(1), s.p.q.SQ.Done)
}

// A register that was hot before a reset is not hot after it: the first visit reads the
// record.
func TestFlameIsColdAtFirst(t *testing.T) {
	s := burning(t, Config{})
	s.lay(8)
	s.p.postBlueFlame()
	for s.e.Step() == 0 {
	}
	s.p.scq.all()
	require.NotZero(t, s.p.q.SQ.BlueFlame.Hot)
	s.p.toState(control.StateRST)
	s.p.sent = 0
	s.p.ring()
	s.p.up(s.q)
	s.lay(16)
	s.p.ring()
	require.Equal(t, 1, s.e.Step())
	s.p.good()
}

// A register that a poster is overwriting stays hot, so that the visits until the WQE is there do not read
// the record. If the register remains empty, it cools down like one that has not changed.
func TestFlameThatIsBeingWritten(t *testing.T) {
	s := burning(t, Config{})
	flame := s.p.q.SQ.BlueFlame
	for range 2 { // so that no half is empty
		s.lay(8)
		s.p.postBlueFlame()
		for s.e.Step() == 0 {
		}
		s.p.scq.all()
	}
	s.lay(16)
	flame.Half[s.p.half&1].PublishFirst(0) // the first of the stores of PublishHead
	for left := flame.Hot; left > 0; left-- {
		require.Equal(t, left, flame.Hot)
		require.Zero(t, s.e.Step())
	}
	require.Zero(t, flame.Hot)
	s.p.postBlueFlame()
	require.Equal(t, 1, s.e.Step())
	s.p.scq.all()
	require.NotZero(t, flame.Hot)
	s.p.ring()
	s.settle()
	s.p.scq.none()
}

// A SEND from the register that finds no receive waits. When a receive is posted, the message
// is sent from the ring, and only once.
func TestFlameThatWaits(t *testing.T) {
	s := burning(t, Config{})
	s.p.write(ctrl(wqe.OpSend), s.local.data(0, 8))
	s.p.postBlueFlame()
	s.settle()
	s.p.ring()
	s.settle()
	s.p.scq.none()
	s.q.recv(s.far.data(128, 8))
	s.settle()
	s.p.good()
	require.Equal(t, unharmed, s.q.rcq.one().Syndrome)
	s.same(s.local.mem[:8], s.far.mem[128:136], "message")
}

// A WQE from the register whose completion finds no room puts the queue into error. When the
// record announces this WQE later, it is not flushed in addition.
func TestFlameThatOverruns(t *testing.T) {
	s := burning(t, Config{})
	for i := range 17 {
		s.lay(8)
		s.p.postBlueFlame()
		s.settle()
		if i < 16 {
			s.p.ring()
		}
	}
	require.Equal(t, control.StateERR, s.p.state())
	s.p.ring()
	s.settle()
	require.Equal(t, uint64(s.p.sent), s.p.q.SQ.Done)
	list := s.p.scq.all()
	require.Len(t, list, 16)
	for _, w := range list {
		require.Equal(t, cqe.StatusSuccess, w.Status)
	}
}

// If a client does not write its record, the device executes at most MostAhead WQEs from the
// register, and the rest when the client writes the record. A record that then goes back is
// explained as for other queues.
func TestFlameWithoutRecord(t *testing.T) {
	c, said := logged()
	s := burning(t, c)
	for range object.MostAhead + 3 {
		s.lay(8)
		s.p.postBlueFlame()
		for range 4 {
			s.e.Step()
		}
		s.p.scq.all()
	}
	require.Equal(t, uint64(1+object.MostAhead), s.p.q.SQ.Done)
	require.Empty(t, said.String())
	s.p.ring()
	s.settle()
	require.Len(t, s.p.scq.all(), 3)
	require.Empty(t, said.String())
	shm.BE32At(s.p.rec, 4).Publish(uint32(s.p.sent) - 1)
	s.settle()
	require.NotEmpty(t, said.String())
}

// After a WQE from the register, a WQE that only the record announces is found soon, also by a
// device that is about to sleep.
func TestFlameIsNotAllThereIs(t *testing.T) {
	s := burning(t, Config{})
	s.lay(8)
	s.p.postBlueFlame()
	for s.e.Step() == 0 {
	}
	s.p.ring()
	s.p.scq.all()
	s.lay(16)
	s.p.ring()
	n, _ := visitEverything(s.e, true)
	require.Equal(t, 1, n)
	s.p.good()
}

// A transfer of several slices from the ring is not delayed by a register that was hot.
func TestFlameBesideLongTransfers(t *testing.T) {
	s := burning(t, Config{Slice: 64})
	s.lay(8)
	s.p.postBlueFlame()
	s.settle()
	s.p.scq.all()
	s.p.ring()
	s.p.post(ctrl(wqe.OpRDMAWrite), s.far.raddr(0), s.local.data(0, 256))
	s.p.postBlueFlame()
	s.settle()
	s.p.good()
	s.same(s.local.mem, s.far.mem, "written")
}

// A WQE from the register allocates no memory.
func TestFlameAllocates(t *testing.T) {
	s := burning(t, Config{})
	s.lay(8)
	b := *(*[wqe.BlockSize]byte)(s.p.sq[wqe.BlockSize:])
	s.p.sent--
	require.Zero(t, testing.AllocsPerRun(200, func() {
		binary.BigEndian.PutUint16(b[1:], s.p.sent)
		s.p.q.SQ.BlueFlame.Half[s.p.sent&1].PublishHead(&b)
		s.p.sent++
		s.e.Step()
		s.p.ring()
		s.e.Step()
		s.p.scq.next()
	}))
	require.Equal(t, uint64(s.p.sent), s.p.q.SQ.Done)
}
