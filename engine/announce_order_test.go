package engine

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/doorbell"
	"github.com/nicless/nicless/internal/await"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/shm"
	"github.com/nicless/nicless/wqe"
	"github.com/stretchr/testify/require"
)

// A latePoster posts as an accelerator without a fence: the words of the WQEs that the device uses, the
// record and the register are stored in any order. It never stores the other words.
type latePoster struct {
	*scene
	rnd   *rand.Rand
	image []byte // the ring when everything has arrived
	want  []byte // the remote memory when everything has been executed
}

// lateSlot is how many bytes of the remote memory each WQE writes into.
const lateSlot = 64

func newLatePoster(t testing.TB, doorbells uint8, seed uint64) *latePoster {
	s := rung(t, Config{}, doorbells)
	holdClock(s.e) // no WQE is late for so long that the device executes it without its last word
	return &latePoster{scene: s, rnd: rand.New(rand.NewPCG(seed, 1)), image: make([]byte, len(s.p.sq)),
		want: bytes.Clone(s.far.mem)}
}

// draw returns the stores that post the next n WQEs, of one or two blocks, in a random order.
func (w *latePoster) draw(n int) (stores []func()) {
	live := w.p.sq
	for range n {
		w.p.sq = w.image
		at := w.p.sent
		data := make([]byte, []int{8, 60}[w.rnd.IntN(2)])
		for i := 0; i < len(data); i += 4 {
			binary.LittleEndian.PutUint32(data[i:], w.rnd.Uint32())
		}
		off := w.rnd.IntN(len(w.want)/lateSlot) * lateSlot
		w.p.write(ctrl(wqe.OpRDMAWrite), w.far.raddr(off), data)
		copy(w.want[off:], data)
		w.p.sq = live
		for i := range (wqe.CtrlSize + wqe.RaddrSize + 4 + len(data)) / 4 {
			if i == 3 || i == 7 {
				continue // the immediate, and a reserved word
			}
			place := (uint64(at)*wqe.BlockSize + uint64(i)*4) % uint64(len(live))
			v := shm.BE32At(w.image, place).Observe()
			stores = append(stores, func() { shm.BE32At(live, place).Publish(v) })
		}
	}
	next := w.p.sent
	stores = append(stores, func() { shm.BE32At(w.p.rec, 4).Publish(uint32(next)) },
		func() { w.p.bell(0x800).Publish(uint64(doorbell.MakeRing(next, w.p.num))) })
	w.rnd.Shuffle(len(stores), func(i, k int) { stores[i], stores[k] = stores[k], stores[i] })
	return stores
}

// wrong returns what is wrong after all stores of n WQEs were made and list is all completions of them.
func (w *latePoster) wrong(n int, list []cqe.WC) string {
	for i, c := range list {
		if c.Status != cqe.StatusSuccess {
			return fmt.Sprintf("WQE %d: %v", i, c.Status)
		}
	}
	if len(list) != n {
		return fmt.Sprintf("%d completions of %d WQEs", len(list), n)
	}
	if !bytes.Equal(w.want, w.far.mem) {
		return "other bytes were written"
	}
	return ""
}

// run posts rounds of 1 to 4 WQEs, with steps of the engine between any two stores. It returns what went
// wrong.
func (w *latePoster) run(rounds int) string {
	for range rounds {
		n := 1 + w.rnd.IntN(4)
		var list []cqe.WC
		for _, store := range w.draw(n) {
			store()
			w.step()
			list = append(list, w.p.scq.all()...)
		}
		w.settle()
		if text := w.wrong(n, append(list, w.p.scq.all()...)); text != "" {
			return text
		}
	}
	return ""
}

// With the guard, no half-written WQE is executed, in whatever order the words of WQEs, record and
// register arrive.
func TestGuardedOrder(t *testing.T) {
	rounds := 1000
	if shm.RaceEnabled {
		rounds = 50 // the interleavings are the same, and much slower
	}
	for seed := range uint64(4) {
		require.Empty(t, newLatePoster(t, control.DoorbellGuarded, seed).run(rounds), "seed %d", seed)
	}
}

// Without the guard the same posters fail, so TestGuardedOrder can fail.
func TestUnguardedOrder(t *testing.T) {
	for _, mode := range []uint8{control.DoorbellRecord, control.DoorbellRegister} {
		require.NotEmpty(t, newLatePoster(t, mode, 0).run(20))
	}
}

// TestGuardedOrder with a poster that runs beside the engine.
func TestGuardedOrderConcurrent(t *testing.T) {
	w := newLatePoster(t, control.DoorbellGuarded, 9)
	posts, done := make(chan []func()), make(chan bool)
	go func() {
		for stores := range posts {
			for i, store := range stores {
				store()
				if i%7 == 0 {
					runtime.Gosched()
				}
			}
		}
		close(done)
	}()
	for range 3000 {
		n := 1 + w.rnd.IntN(4)
		posts <- w.draw(n)
		var list []cqe.WC
		await.Until(t, fmt.Sprintf("%d WQEs have completed", n), func() bool {
			for range 1000 {
				if len(list) >= n || w.p.state() != control.StateRTS {
					return true
				}
				w.step()
				list = append(list, w.p.scq.all()...)
			}
			return false // for a millisecond, in which the poster may need this core
		}, func() any { return len(list) })
		require.Empty(t, w.wrong(n, list))
	}
	close(posts)
	<-done
}
