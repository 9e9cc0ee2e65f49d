package engine

import (
	"math/rand/v2"
	"testing"

	"github.com/nicless/nicless/engine/internal/completion"
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/shm"
	"github.com/nicless/nicless/wqe"
	"github.com/stretchr/testify/require"
)

// A counter is a client of a completion queue that takes completions when the test says so, and counts
// them modulo a number.
type counter struct {
	*rig
	p      *end
	c      *poller
	modulo uint64
}

func newCounter(t testing.TB, logSize uint8, modulo uint64) *counter {
	r, p, c := single(t, control.CQ{LogSize: logSize})
	c.lazy = true
	return &counter{r, p, c, modulo}
}

// post posts n NOPs one by one. Of the steps until the device is at rest almost all find nothing, so it comes
// to rest only after the last one; the others are posted when the completion of the one before is there.
func (x *counter) post(n int) {
	q := x.e.CQs[x.c.num]
	for range n {
		x.p.post(ctrl(wqe.OpNop))
		next := q.Next
		for i := 0; q.Next == next && i < completion.ArmRoundSteps; i++ {
			x.step()
		}
	}
	x.settle()
}

// take takes n completions.
func (x *counter) take(n int) {
	x.Helper()
	for range n {
		_, _, ok := x.c.next()
		require.True(x, ok)
	}
	shm.BE32At(x.c.rec, 0).Publish(uint32(x.c.ci % x.modulo))
}

// A client that counts modulo the size of the queue is served for ever, whatever its pace, if it does not
// take a whole lap at once while the queue is new. So is one that counts modulo 2^24.
func TestCountersOfConsumers(t *testing.T) {
	const logSize = 4
	for _, modulo := range []uint64{1 << logSize, 1 << 24} {
		for seed := range uint64(20) {
			rnd := rand.New(rand.NewPCG(seed, modulo))
			x := newCounter(t, logSize, modulo)
			most := 1 + rnd.IntN(1<<logSize-1) // completions in a batch
			unread := 0
			for range 200 {
				n := rnd.IntN(min(most, 1<<logSize-1-unread) + 1)
				x.post(n)
				unread += n
				n = rnd.IntN(unread + 1)
				if rnd.IntN(3) == 0 {
					n = unread
				}
				x.take(n)
				unread -= n
				require.Equal(t, control.StateRTS, x.p.state(), "modulo %#x, seed %d", modulo, seed)
			}
		}
	}
}

// The count at which a queue of 256 entries was seen to fail: one that is read a lap after the last
// reading.
func TestCounterComesRound(t *testing.T) {
	x := newCounter(t, 8, 1<<8)
	x.post(241)
	x.take(241)
	for range 1000 {
		x.post(1)
		x.take(1)
	}
	require.Equal(t, control.StateRTS, x.p.state())
	require.Equal(t, object.ModuloSize, x.e.CQs[x.c.num].Counts)
}

// While a client's way of counting is unknown, a queue that has grown is read each quarter of its new lap.
func TestGrownQueueIsRead(t *testing.T) {
	x := newCounter(t, 4, 1<<24)
	x.post(3)
	x.take(3)
	q := x.e.CQs[x.c.num]
	require.Equal(t, object.Unknown, q.Counts)
	x.c.resize(8, 6)
	require.LessOrEqual(t, q.Seen+1<<8, q.Next+1<<8/4)
	at := q.Taken
	for range 1 << 8 / 4 {
		x.post(1)
		shm.BE32At(x.c.rec, 0).Publish(uint32(q.Next-1) & 0xff)
	}
	x.post(1)
	require.NotEqual(t, at, q.Taken, "the record has been read")
}

// A client that counts in 24 bits and takes too little overruns its queue with the first completion for
// which there is no room: in the first lap, in later ones, and where the count wraps.
func TestOverrunIsExact(t *testing.T) {
	for _, taken := range []int{0, 1, 5, 15, 16, 17, 31, 32, 100} {
		x := newCounter(t, 4, 1<<24)
		for range taken {
			x.post(1)
			x.take(1)
		}
		x.post(16)
		require.Equal(t, control.StateRTS, x.p.state(), taken)
		x.post(1)
		require.Equal(t, control.StateERR, x.p.state(), taken)
	}
	x := newCounter(t, 4, 1<<24)
	q := x.e.CQs[x.c.num]
	x.c.ci = 1<<24 - 4
	q.Next, q.Taken, q.Seen, q.Counts = 1<<24-4, 1<<24-4, 1<<24-4, object.In24Bits
	x.post(16)
	x.take(7)
	x.post(7)
	require.Equal(t, control.StateRTS, x.p.state())
	x.post(1)
	require.Equal(t, control.StateERR, x.p.state())
}
