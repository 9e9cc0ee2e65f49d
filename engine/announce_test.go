package engine

import (
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/doorbell"
	"github.com/nicless/nicless/engine/internal/completion"
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/engine/internal/quota"
	"github.com/nicless/nicless/engine/internal/report"
	"github.com/nicless/nicless/internal/clock"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/shm"
	"github.com/nicless/nicless/wqe"
	"github.com/stretchr/testify/require"
)

const rungPage = 1 // the UAR page of rung queues

// rung returns a scene in which work of the queue pair p starts in another way than by its record alone.
func rung(t testing.TB, cfg Config, doorbells uint8) *scene {
	t.Helper()
	s := &scene{rig: newRig(t, cfg)}
	a, b := s.host("p"), s.host("q")
	ca, cb := a.cq(control.CQ{LogSize: 6}), b.cq(control.CQ{LogSize: 4})
	s.p = a.qp(control.QP{UAR: rungPage, Doorbells: doorbells, NoReceive: 1}, ca, nil)
	s.q = b.qp(control.QP{}, cb, cb)
	s.local, s.far = a.full(256, 1), b.full(4096, 7)
	s.p.up(s.q)
	s.q.up(s.p)
	return s
}

// bell returns the register of p at an offset of its UAR page.
func (p *end) bell(off uint64) *shm.BE64 {
	return shm.BE64At(p.q.SQ.Registers.Bytes(), rungPage*doorbell.UARPageSize+off)
}

// head returns the first 8 bytes of the WQE at an index.
func (p *end) head(index uint16) uint64 {
	return shm.BE64At(p.sq, uint64(index)*wqe.BlockSize%uint64(len(p.sq))).Observe()
}

// places are the offsets in a UAR page at which clients ring.
var places = []uint64{0x600, 0x800, 0x900, 0xa00, 0xb00, 0xc00, 0xd00, 0xe00, 0xf00}

// Work starts by a register in each of its forms, at each place, through several laps of the ring, with
// WQEs of one and of several blocks, one or more in a ring. Nothing is written to the record.
func TestRegisterStartsWork(t *testing.T) {
	forms := map[string]func(p *end, off uint64, last uint16){
		"next index": func(p *end, off uint64, _ uint16) {
			p.bell(off).Publish(uint64(doorbell.MakeRing(p.sent, p.num)))
		},
		"next index, not masked": func(p *end, off uint64, _ uint16) {
			p.bell(off).Publish(uint64(doorbell.MakeRing(p.sent, p.num)) | 0x5a<<56)
		},
		"first bytes of the last WQE": func(p *end, off uint64, last uint16) {
			p.bell(off).Publish(p.head(last))
		},
		"64 bytes of the last WQE": func(p *end, off uint64, last uint16) {
			for i := range uint64(8) {
				v := shm.BE64At(p.sq, uint64(last)*wqe.BlockSize%uint64(len(p.sq))+8*i).Observe()
				p.bell(off + 8*i).Publish(v)
			}
		},
	}
	for _, mode := range []uint8{control.DoorbellRegister, control.DoorbellGuarded} {
		for name, ring := range forms {
			t.Run(fmt.Sprintf("%s, doorbells %d", name, mode), func(t *testing.T) {
				s := rung(t, Config{}, mode)
				for i := range 12 * len(places) {
					var last uint16
					n := i%3 + 1
					for k := range n {
						text := fmt.Appendf(nil, "%-*d", []int{8, 100}[k%2], i*3+k)
						last = s.p.write(ctrl(wqe.OpRDMAWrite), s.far.raddr(128*k), text)
					}
					s.settle()
					s.p.scq.none()
					ring(s.p, places[i%len(places)], last)
					s.settle()
					list := s.p.scq.all()
					require.Len(t, list, n)
					require.Equal(t, last, list[n-1].Counter)
					for k := range n {
						want := fmt.Sprintf("%-8d", i*3+k)
						require.Equal(t, want, string(s.far.mem[128*k:][:8]))
					}
				}
				require.Zero(t, shm.BE32At(s.p.rec, 4).Observe())
			})
		}
	}
}

// The record starts no work of a queue that goes by registers, and starts work of a guarded one, also if a
// client stores only the 16 bits that count.
func TestRecordOfRungQueues(t *testing.T) {
	modes := map[uint8]int{control.DoorbellRecord: 1, control.DoorbellRegister: 0, control.DoorbellGuarded: 1}
	for mode, want := range modes {
		s := rung(t, Config{}, mode)
		for i := range uint16(20) {
			s.p.write(ctrl(wqe.OpNop))
			s.p.rec[6], s.p.rec[7] = byte((i+1)>>8), byte(i+1)
			s.settle()
			require.Len(t, s.p.scq.all(), want)
			if want == 0 {
				s.p.bell(0x600).Publish(uint64(doorbell.MakeRing(i+1, s.p.num)))
				s.settle()
				require.Len(t, s.p.scq.all(), 1)
			}
		}
	}
}

// A doorbell that cannot be right does nothing, and is explained once. A later right one counts.
func TestStrayDoorbells(t *testing.T) {
	c, said := logged()
	s := rung(t, c, control.DoorbellRegister)
	s.p.write(ctrl(wqe.OpNop))
	far := doorbell.MakeRing(17, s.p.num) // the ring has 16 blocks
	none := doorbell.MakeRing(1, s.p.num+0x777)
	for _, v := range []doorbell.Ring{far, none} {
		s.p.bell(0x800).Publish(uint64(v))
		s.settle()
		s.settle()
		s.p.scq.none()
	}
	text := fmt.Sprintf("the register at 0x800 of its UAR page says %#016x, ", uint64(far))
	require.Contains(t, said.String(), text+"which announces blocks up to 0x0011, 17 more than the 0x0000 executed; the ring has 16")
	require.Contains(t, said.String(), fmt.Sprintf("which is for queue pair %#06x; the client has none with that number", s.p.num+0x777))

	// Another queue of the client may use the page, and its doorbells are not for this one.
	other := s.p.h.qp(control.QP{UAR: rungPage, Doorbells: control.DoorbellRegister, NoReceive: 1}, s.p.scq, nil)
	other.up(other)
	s.p.bell(0xa00).Publish(uint64(doorbell.MakeRing(1, other.num)))
	s.settle()
	require.NotContains(t, said.String(), "register at 0xa00")
	w := s.p.scq.one() // of the other: an empty slot fails
	require.Equal(t, other.num, w.QPN)

	s.p.bell(0x900).Publish(uint64(doorbell.MakeRing(1, s.p.num)))
	s.settle()
	require.Equal(t, cqe.StatusSuccess, s.p.scq.one().Status)
}

// A doorbell of one client's page is nothing to another client, even with the number of its queue pair.
func TestOtherClientsRegisters(t *testing.T) {
	s := rung(t, Config{}, control.DoorbellRegister)
	b := s.q.h
	q := b.qp(control.QP{UAR: rungPage, Doorbells: control.DoorbellRegister, NoReceive: 1}, s.q.scq, nil)
	q.up(q)
	s.p.write(ctrl(wqe.OpNop))
	q.bell(0x800).Publish(uint64(doorbell.MakeRing(1, s.p.num)))
	s.settle()
	s.p.scq.none()
	s.q.scq.none()
}

// A doorbell from before a reset announces nothing, and the same one counts again after it.
func TestRegisterAfterReset(t *testing.T) {
	for _, mode := range []uint8{control.DoorbellRegister, control.DoorbellGuarded} {
		s := rung(t, Config{}, mode)
		for range 3 {
			s.p.write(ctrl(wqe.OpNop))
			s.settle()
			s.p.scq.none()
			s.p.bell(0x800).Publish(uint64(doorbell.MakeRing(1, s.p.num)))
			s.settle()
			require.Equal(t, cqe.StatusSuccess, s.p.scq.one().Status)
			s.p.reset(s.q)
		}
	}
}

// The doorbells that registers have when a queue pair is made, or goes through RST, are not explained: they
// may be of a queue pair that had the page before. Later ones are.
func TestDoorbellsFromBefore(t *testing.T) {
	c, said := logged()
	s := rung(t, c, control.DoorbellRegister)
	gone := s.p.h.qp(control.QP{UAR: rungPage, Doorbells: control.DoorbellRegister, NoReceive: 1}, s.p.scq, nil)
	gone.up(gone)
	gone.write(ctrl(wqe.OpNop))
	gone.bell(0xa00).Publish(uint64(doorbell.MakeRing(1, gone.num)))
	s.settle()
	require.Equal(t, gone.num, s.p.scq.one().QPN)
	gone.destroy()
	gone.bell(0xb00).Publish(uint64(doorbell.MakeRing(2, gone.num)))
	s.p.reset(s.q)
	fresh := s.p.h.qp(control.QP{UAR: rungPage, Doorbells: control.DoorbellRegister, NoReceive: 1}, s.p.scq, nil)
	fresh.up(fresh)
	s.settle()
	require.Empty(t, said.String())
	fresh.write(ctrl(wqe.OpNop))
	fresh.bell(0xb00).Publish(uint64(doorbell.MakeRing(1, fresh.num)))
	s.settle()
	require.Equal(t, fresh.num, s.p.scq.one().QPN)
	fresh.bell(0xb00).Publish(uint64(doorbell.MakeRing(2, gone.num)))
	s.settle()
	require.Contains(t, said.String(), fmt.Sprintf("which is for queue pair %#06x; the client has none with that number", gone.num))
}

// A poster that copies its WQE's first bytes into the register when the guard has taken the WQE copies the
// guard's mark. It says nothing, and is not explained.
func TestMarkInRegister(t *testing.T) {
	c, said := logged()
	s := rung(t, c, control.DoorbellGuarded)
	beside := s.p.h.qp(control.QP{UAR: rungPage, Doorbells: control.DoorbellGuarded, NoReceive: 1}, s.p.scq, nil)
	beside.up(beside)
	for i := range uint16(40) {
		s.p.write(ctrl(wqe.OpNop))
		shm.BE32At(s.p.rec, 4).Publish(uint32(i + 1))
		s.settle()
		require.Equal(t, i, s.p.scq.one().Counter)
		mark := s.p.head(i)
		require.Equal(t, uint32(mark), uint32(mark>>32))
		s.p.bell(places[i%2]).Publish(mark)
		s.settle()
	}
	require.Empty(t, said.String())
}

// round lets the device come to rest in the first rounds of 16 blocks, in those in which the 16-bit indices
// come round, and in some between. In the others it makes some steps, which are enough for work that is
// announced: of the thousand that a rest takes almost all find nothing.
func (s *scene) round(i uint64) {
	const comesRound = 1 << 16 / 16
	if i < 8 || i > comesRound-8 || i%64 == 0 {
		s.settle()
		return
	}
	for range completion.ArmRoundSteps {
		s.step()
	}
}

// A register that is not rung any more, and a record that is never written, announce nothing when the 16-bit
// indices come round, as they do after 4096 rings of 16 blocks.
func TestStaleRegister(t *testing.T) {
	for _, mode := range []uint8{control.DoorbellRegister, control.DoorbellGuarded} {
		s := rung(t, Config{}, mode)
		place := uint64(0x900)
		for i := range uint64(1<<16/16 + 4) {
			for range 16 {
				s.p.write(silent(wqe.OpNop))
			}
			s.round(i)
			require.Equal(t, i*16, s.p.q.SQ.Done, "doorbells %d: nothing has been rung", mode)
			s.p.bell(place).Publish(uint64(doorbell.MakeRing(s.p.sent, s.p.num)))
			s.round(i)
			require.Equal(t, (i+1)*16, s.p.q.SQ.Done, "doorbells %d", mode)
			place = 0x800
		}
		require.Equal(t, control.StateRTS, s.p.state())
	}
}

// A record that is written only sometimes announces nothing when the 16-bit indices come round, and what it
// says first after a reset counts, also if that is what it said last.
func TestStaleRecord(t *testing.T) {
	s := rung(t, Config{}, control.DoorbellGuarded)
	for lap, rounds := range []uint64{1<<16/16 + 4, 4} {
		for i := range rounds {
			for range 16 {
				s.p.write(silent(wqe.OpNop))
			}
			s.round(i)
			require.Equal(t, i*16, s.p.q.SQ.Done)
			if i == 0 {
				shm.BE32At(s.p.rec, 4).Publish(uint32(s.p.sent))
			} else {
				s.p.bell(0x800).Publish(uint64(doorbell.MakeRing(s.p.sent, s.p.num)))
			}
			s.round(i)
			require.Equal(t, (i+1)*16, s.p.q.SQ.Done, "lap %d", lap)
		}
		s.p.reset(s.q)
	}
}

// A record that announces more than the ring holds is explained once, whatever it says.
func TestStrayRecord(t *testing.T) {
	for _, word := range []uint32{0x1234, 0x7fff, 0x12347fff} {
		c, said := logged()
		s := rung(t, c, control.DoorbellGuarded)
		shm.BE32At(s.p.rec, 4).Publish(word)
		for range 5 {
			s.settle()
			s.step()
		}
		require.Equal(t, 1, strings.Count(said.String(), "record-range"), "%#x: %s", word, said)
	}
}

// Cold queues are found by a patrol, and by the passes of a device that naps or sleeps.
func TestRungWhileCold(t *testing.T) {
	for _, mode := range []uint8{control.DoorbellRegister, control.DoorbellGuarded} {
		s := rung(t, Config{}, mode)
		for range 20 {
			q := s.p.h.qp(control.QP{NoReceive: 1}, s.p.scq, nil)
			q.up(q)
		}
		for i := range uint16(6) {
			for range 1 << 17 {
				if s.p.q.Sched.Warm == 0 {
					break
				}
				s.step()
			}
			for range 1000 { // it is examined, and has no work
				s.step()
			}
			require.Zero(t, s.p.q.Sched.Warm)
			s.p.write(ctrl(wqe.OpNop))
			s.p.bell(places[i]).Publish(uint64(doorbell.MakeRing(i+1, s.p.num)))
			if i%2 == 0 {
				done, _ := visitEverything(s.e, true)
				require.NotZero(t, done)
			}
			s.settle()
			require.Equal(t, i, s.p.scq.one().Counter)
		}
	}
}

// Announced WQEs of rung queues are flushed in error.
func TestRungFlush(t *testing.T) {
	for _, mode := range []uint8{control.DoorbellRegister, control.DoorbellGuarded} {
		s := rung(t, Config{}, mode)
		s.p.toState(control.StateERR)
		s.p.write(ctrl(wqe.OpNop))
		s.p.write(ctrl(wqe.OpRDMAWrite), s.far.raddr(0), make([]byte, 100))
		s.p.bell(0xb00).Publish(uint64(doorbell.MakeRing(s.p.sent, s.p.num)))
		s.settle()
		list := s.p.scq.all()
		require.Len(t, list, 2)
		require.Equal(t, cqe.StatusFlush, list[1].Status)
		require.Equal(t, uint16(1), list[1].Counter)
	}
}

// A WQE with ds 0 whose first bytes are rung announces nothing, and that is explained once, after a while. It
// is executed when it is right and has been rung again.
func TestRungWithoutSize(t *testing.T) {
	if report.BlindToRings {
		t.Skip("WQEs that are not announced are not read")
	}
	for _, mode := range []uint8{control.DoorbellRegister, control.DoorbellGuarded} {
		for before := range 3 { // WQEs that the same ring announces
			c, said := logged()
			s := rung(t, c, mode)
			holdClock(s.e)
			for range before {
				s.p.write(ctrl(wqe.OpNop))
			}
			last := s.p.write(ctrl(wqe.OpRDMAWrite), s.far.raddr(0), []byte("text"))
			size := &s.p.sq[int(last)*wqe.BlockSize+7]
			whole := *size
			*size = 0
			s.p.bell(0x900).Publish(s.p.head(last))
			s.settle()
			require.Len(t, s.p.scq.all(), before)
			require.Empty(t, said.String())
			for range 3 {
				s.e.Hooks.HeldClock += clock.Cycles(report.SuspicionTime) + 1
				s.settle()
			}
			text := fmt.Sprintf("the register at 0x900 of its UAR page says %#016x, the first bytes of the WQE at block %#04x, in which ds is 0", s.p.head(last), last)
			require.Equal(t, 1, strings.Count(said.String(), text), "%s", said)
			require.Equal(t, 1, strings.Count(said.String(), "ds-zero"), "%s", said)
			*size = whole
			s.p.bell(0x900).Publish(s.p.head(last))
			s.settle()
			require.Equal(t, cqe.StatusSuccess, s.p.scq.one().Status)
		}
	}
}

// Registers that say the next index when all is executed are not explained, whatever is in the ring.
func TestRungAgain(t *testing.T) {
	ring := func(off uint64, index, opcode uint64) func(p *end) {
		return func(p *end) { p.bell(off).Publish(uint64(doorbell.MakeRing(uint16(index), p.num)) | opcode<<32) }
	}
	const done = 20
	for what, do := range map[string][]func(p *end){
		"at another place":    {ring(0x800, done, 0), ring(0xa00, done, 0)},
		"after an older ring": {ring(0x800, done-1, 0), ring(0x800, done, 0)},
		"with an opcode":      {ring(0x800, done, uint64(wqe.OpRDMAWrite))},
		"index not masked":    {ring(0x800, done, 0x5a<<24)},
		"while a WQE is written": {ring(0x800, done, 0), func(p *end) {
			p.write(ctrl(wqe.OpNop))
		}},
		"with an opcode, while a WQE is written": {ring(0x800, done, uint64(wqe.OpNop)), func(p *end) {
			p.write(ctrl(wqe.OpRDMAWrite), wqe.Raddr{}, []byte("text"))
		}},
		"with a header in the next slot": {ring(0x800, done, 0), func(p *end) {
			shm.BE64At(p.sq, done%16*wqe.BlockSize).Publish(uint64(doorbell.MakeRing(done, p.num)))
		}},
		"first bytes again": {func(p *end) {
			p.bell(0xb00).Publish(uint64(doorbell.MakeRing(done-1, p.num)) | 1)
		}},
	} {
		for _, mode := range []uint8{control.DoorbellRegister, control.DoorbellGuarded} {
			t.Run(fmt.Sprintf("%s, doorbells %d", what, mode), func(t *testing.T) {
				c, said := logged()
				s := rung(t, c, mode)
				holdClock(s.e)
				for range done {
					s.p.write(ctrl(wqe.OpNop))
					if mode == control.DoorbellGuarded {
						s.p.ring() // its record, and the register later
						s.settle()
					}
					s.p.bell(0x900).Publish(uint64(doorbell.MakeRing(s.p.sent, s.p.num)))
					s.settle()
					s.p.scq.one()
				}
				for _, f := range do {
					f(s.p)
					for range 3 {
						s.e.Hooks.HeldClock += clock.Cycles(report.SuspicionTime) + 1
						s.settle()
					}
				}
				require.Equal(t, uint64(done), s.p.q.SQ.Done)
				require.Empty(t, said.String())
			})
		}
	}
}

// A WQE that is announced and not whole waits, is explained after a while, and is executed when it is
// whole.
func TestGuardWaits(t *testing.T) {
	for what, late := range map[string]struct {
		off  int
		says string
	}{
		"index":         {1, "has index"},
		"queue pair":    {4, "names queue pair"},
		"ds":            {7, "has ds"},
		"raddr":         {16, "its 4 bytes at offset 16 have not been written"},
		"rkey":          {24, "its 4 bytes at offset 24 have not been written"},
		"inline header": {32, "its 4 bytes at offset 32 have not been written"},
		"inline data":   {64, "its 4 bytes at offset 64 have not been written"},
	} {
		t.Run(what, func(t *testing.T) {
			c, said := logged()
			s := rung(t, c, control.DoorbellGuarded)
			holdClock(s.e)
			for lap := range 3 {
				at := int(s.p.sent) * wqe.BlockSize % len(s.p.sq)
				old := [4]byte(s.p.sq[at+late.off&^3:])
				data := fmt.Appendf(nil, "%-40d", lap)
				s.p.write(ctrl(wqe.OpRDMAWrite), s.far.raddr(0), data)
				whole := [4]byte(s.p.sq[at+late.off&^3:])
				if what == "ds" {
					old = [4]byte{whole[0], whole[1], whole[2], 0}
				}
				copy(s.p.sq[at+late.off&^3:], old[:])
				s.p.ring()
				s.settle()
				s.p.scq.none()
				require.NotContains(t, said.String(), late.says)
				s.e.Hooks.HeldClock += clock.Cycles(2 * report.SuspicionTime)
				s.settle()
				s.step()
				require.Contains(t, said.String(), late.says)
				if what == "inline data" {
					require.Contains(t, said.String(), "it is executed when they are, or after 1s")
				} else {
					require.Contains(t, said.String(), "it is not executed before that is right")
				}
				said.Reset()
				copy(s.p.sq[at+late.off&^3:], whole[:])
				s.settle()
				require.Equal(t, cqe.StatusSuccess, s.p.scq.one().Status)
				require.Equal(t, string(data), string(s.far.mem[:40]))
				for range 16 - 2 { // to the same slot
					s.p.post(silent(wqe.OpNop))
					s.settle()
				}
			}
		})
	}
}

// A WQE is executed whose reserved words have not been written since the slot was used last.
func TestGuardLeavesReservedWords(t *testing.T) {
	s := rung(t, Config{}, control.DoorbellGuarded)
	s.p.post(ctrl(wqe.OpNop))
	s.settle()
	s.p.scq.one()
	for _, op := range []struct {
		ctrl wqe.Ctrl
		wait wqe.Wait
	}{
		{wqe.Ctrl{Opcode: wqe.OpWait, OpMod: wqe.OpModWaitCQ, Flags: wqe.CEAlways}, wqe.Wait{Number: s.p.scq.num}},
		{ctrl(wqe.OpSendEn), wqe.Wait{Number: s.p.num}},
	} {
		at := int(s.p.sent) * wqe.BlockSize
		mark := [8]byte(s.p.sq[at+16:])
		require.NotZero(t, mark)
		i := s.p.write(op.ctrl, op.wait)
		copy(s.p.sq[at+16:], mark[:])
		s.p.ring()
		s.settle()
		e := s.p.scq.one()
		require.Equal(t, cqe.StatusSuccess, e.Status)
		require.Equal(t, i, e.Counter)
	}
}

// Data that are by chance what the device writes over a slot do not make a WQE wait for ever: an immediate,
// an operand of an atomic, or a word of inline data. Two such words side by side have not been written.
func TestMarkInData(t *testing.T) {
	c, said := logged()
	s := rung(t, c, control.DoorbellGuarded)
	holdClock(s.e)
	late := func(executed bool, post func(mark uint32)) {
		t.Helper()
		said.Reset()
		post(uint32(s.p.head(s.p.sent)))
		s.p.ring()
		for range 2 { // it is explained, and then executed
			s.settle()
			s.p.scq.none()
			s.e.Hooks.HeldClock += clock.Cycles(report.SuspicionTime) + 1
			s.settle()
		}
		s.step()
		s.settle()
		require.Contains(t, said.String(), "wqe-late")
		require.Len(t, s.p.scq.all(), map[bool]int{true: 1}[executed])
	}
	inline := func(words ...int) func(mark uint32) {
		return func(mark uint32) {
			data := pattern(56, 3)
			for _, w := range words {
				binary.BigEndian.PutUint32(data[4*w:], mark)
			}
			s.p.write(ctrl(wqe.OpRDMAWrite), s.far.raddr(0), data)
		}
	}
	for w := range 14 {
		late(true, inline(w))
		s.same(s.far.mem[4*w+4:56], pattern(56, 3)[4*w+4:], "what follows")
	}
	late(true, inline(0, 3, 5, 12)) // the header and word 0 are side by side, then 1 and 2
	late(true, func(mark uint32) {
		s.p.write(wqe.Ctrl{Opcode: wqe.OpRDMAWriteImm, Flags: wqe.CEAlways, Imm: mark}, s.far.raddr(0), s.local.data(0, 0))
	})
	late(true, func(mark uint32) {
		s.p.write(ctrl(wqe.OpAtomicFA), s.far.raddr(0), wqe.Atomic{SwapAdd: uint64(mark)}, s.local.data(0, 8))
	})
	late(false, inline(5, 6))
}

// A WQE that is whole waits until all its blocks are announced.
func TestGuardWaitsForAllBlocks(t *testing.T) {
	s := rung(t, Config{}, control.DoorbellGuarded)
	s.p.write(ctrl(wqe.OpRDMAWrite), s.far.raddr(0), make([]byte, 100))
	for next, want := range []int{0, 0, 0, 1} { // it has 3 blocks
		s.p.bell(0x800).Publish(uint64(doorbell.MakeRing(uint16(next), s.p.num)))
		s.settle()
		require.Len(t, s.p.scq.all(), want)
	}
}

func TestRungRefused(t *testing.T) {
	r := newRig(t, Config{})
	a := r.host("a")
	c := a.cq(control.CQ{LogSize: 2})
	_, at := a.take(4096)
	bad := func(text string, change func(*control.QP)) {
		m := control.QP{PDN: a.pd, SendCQN: c.num, SQ: at, DBRec: at, LogSQ: 4, NoReceive: 1, Doorbells: 1}
		change(&m)
		a.refused(control.CodeInvalid, text, control.OpCreateQP, &m, nil)
	}
	bad("doorbells 3; 0 (record), 1 (register) and 2 (guarded) are possible", func(m *control.QP) { m.Doorbells = 3 })
	bad("managed 1", func(m *control.QP) { m.Managed = 1 })
	bad("BlueFlame register 2", func(m *control.QP) { m.BlueFlame = 2 })
	bad("no send queue 1", func(m *control.QP) { m.NoSend, m.SQ, m.LogSQ = 1, 0, 0 })
}

// A queue pair whose sends registers alone announce, and that has no receives, needs no record.
func TestNoRecord(t *testing.T) {
	r := newRig(t, Config{})
	a := r.host("a")
	c := a.cq(control.CQ{LogSize: 6})
	sq, at := a.take(16 * wqe.BlockSize)
	m := control.QP{PDN: a.pd, SendCQN: c.num, SQ: at, LogSQ: 4, NoReceive: 1, UAR: rungPage, Doorbells: control.DoorbellRegister}
	var ans control.QPN
	a.call(control.OpCreateQP, &m, &ans)
	p := &end{h: a, scq: c, sq: sq, num: ans.QPN, q: a.e.QPs[ans.QPN]}
	for range 3 {
		p.up(p)
		for i := range uint16(40) {
			p.write(ctrl(wqe.OpNop))
			p.bell(0x800).Publish(uint64(doorbell.MakeRing(i+1, p.num)))
			r.settle()
			require.Equal(t, i, c.one().Counter)
		}
		p.toState(control.StateRST)
		p.sent = 0
	}
	p.destroy()
	for _, change := range []func(*control.QP){
		func(m *control.QP) { m.Doorbells = control.DoorbellRecord },
		func(m *control.QP) { m.Doorbells = control.DoorbellGuarded },
		func(m *control.QP) { m.NoReceive, m.RecvCQN, m.RQ, m.LogRQStride = 0, c.num, at, 6 },
	} {
		bad := m
		change(&bad)
		a.refused(control.CodeInvalid, "8 bytes at address 0x0", control.OpCreateQP, &bad, nil)
	}
}

// A guarded queue pair that its user may not have, or of which there are enough, leaves the ring as it was.
// One whose ring has no memory is refused, and costs nothing.
func TestRefusedGuardMarksNothing(t *testing.T) {
	r := newRig(t, Config{})
	a := r.host("a")
	c := a.cq(control.CQ{LogSize: 2})
	const blocks = 16
	ring, at := a.take(blocks * wqe.BlockSize)
	shade(ring, 5)
	was := append([]byte(nil), ring...)
	m := control.QP{PDN: a.pd, SendCQN: c.num, SQ: at, DBRec: at, LogSQ: 4, NoReceive: 1, Doorbells: control.DoorbellGuarded}
	start := r.owed()

	limit := r.e.Ledger.Limit(quota.Memory)
	cost := object.QPCost + blocks*wqe.BlockSize
	r.e.Ledger.SetLimit(quota.Memory, 2*(start[quota.Memory]+cost)-1, "a test")
	a.refused(control.CodeLimit, fmt.Sprintf("asks for %d more", cost), control.OpCreateQP, &m, nil)
	require.Equal(t, was, ring)
	r.e.Ledger.SetLimit(quota.Memory, limit, "a test")

	most := &a.c.Device.Settings.Limits.QPs
	whole := *most
	*most = 0
	a.refused(control.CodeLimit, "queue pairs", control.OpCreateQP, &m, nil)
	require.Equal(t, was, ring)
	*most = whole
	require.Equal(t, start, r.owed())

	_, base, shrink := a.trusted(1 << 16)
	start = r.owed()
	shrink(0)
	m.SQ = base
	a.refused(control.CodeMemory, "", control.OpCreateQP, &m, nil)
	require.Equal(t, start, r.owed())
	m.SQ = at
	a.call(control.OpCreateQP, &m, new(control.QPN))
	require.NotEqual(t, was, ring, "it is marked")
	require.Equal(t, start[quota.Memory]+cost, r.owed()[quota.Memory])
}
