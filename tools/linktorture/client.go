//go:build linux && (amd64 || arm64)

package linktorture

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/nicless/nicless"
	"github.com/nicless/nicless/internal/verdict"
)

const (
	// hangTime is how long a batch may take. The longest wait seen on a machine at load 20 was 2 s.
	hangTime = 30 * time.Second
	// countTime is the time between two reports of counts.
	countTime = 50 * time.Millisecond
	// turns is how many threads of an engine an answer may need, one after another: the one that polls, and
	// one of a carrier or of the control socket.
	turns = 2
	// pauseMost is the longest pause between two batches, so that engines also have to wake up.
	pauseMost = 2 * time.Millisecond
)

// scanMark is what the scanner writes: a multiple of 4 bytes.
const scanMark = "written by one who guessed a PSN"

var errScanned = errors.New("a stranger's WRITE was executed: it had the PSN of the peer")

// A client is a correct client, with two sides.
type client struct {
	w       *wire
	r       *rand.Rand
	witness *verdict.Witness
	sides   [2]*side
	count   Count
	counted time.Time
}

// runClient moves data between two engines and checks all of it, until gone is closed.
func runClient(w *wire, s spec, gone <-chan struct{}) error {
	witness := verdict.NewWitness(turns, func() []int { return s.Engines })
	c := &client{w: w, r: rand.New(rand.NewPCG(s.Seed, 0x636c69656e74)), witness: witness}
	for i := range c.sides {
		var err error
		c.sides[i], err = newSide([2]string{"the first side", "the second side"}[i], s.Sockets[i],
			witness)
		if err != nil {
			return err
		}
	}
	if err := c.connect(); err != nil {
		return err
	}
	for {
		select {
		case <-gone:
			c.reportCount(0)
			return nil
		default:
		}
		m := c.witness.Begin()
		err := c.round()
		if err != nil {
			if c.sides[0].scanned() || c.sides[1].scanned() {
				// Its consequences, such as a packet of the peer that is taken for a repeated one, are no
				// faults of their own.
				w.send(report{Finding: fmt.Sprintf("%v: %v", errScanned, err)})
			} else {
				w.send(report{Fault: verdict.FromError(err, c.witness.Since(m))})
			}
			for _, s := range c.sides {
				if err := s.reopen(); err != nil {
					return err
				}
			}
			if err := c.connect(); err != nil {
				return err
			}
		}
		c.reportCount(countTime)
		time.Sleep(time.Duration(c.r.Int64N(int64(pauseMost))))
	}
}

// reportCount reports the count, if the last report is old.
func (c *client) reportCount(age time.Duration) {
	if now := time.Now(); now.Sub(c.counted) >= age {
		c.counted = now
		count := c.count
		c.w.send(report{Count: &count})
	}
}

// connect connects the two sides, when the link is up, and reports their queue pairs.
func (c *client) connect() error {
	a, b := c.sides[0], c.sides[1]
	for m := c.witness.Begin(); ; time.Sleep(10 * time.Millisecond) {
		err := errors.Join(a.qp.Connect(b.describe(), nicless.Connection{}),
			b.qp.Connect(a.describe(), nicless.Connection{}))
		if err == nil {
			break
		}
		if verdict.Now()-m.At > hangTime {
			return verdict.Late(verdict.NoAnswer, c.witness.Since(m),
				fmt.Sprintf("a connection within %v", hangTime), "%v", err)
		}
		if err := errors.Join(a.reopen(), b.reopen()); err != nil {
			return err
		}
	}
	c.w.send(report{Ready: true, Victims: []nicless.Descriptor{a.describe(), b.describe()}})
	return nil
}

// round makes one batch of operations, in a random direction, waits for it, and checks both memories.
func (c *client) round() error {
	from, to := c.sides[0], c.sides[1]
	if c.r.IntN(2) == 0 {
		from, to = to, from
	}
	remote := to.mr.Addr()
	n := 1 + c.r.IntN(batch)
	receives, began := 0, time.Now()
	for i := range n {
		size := 1 + c.r.IntN(slotSize)
		if c.r.IntN(2) == 0 {
			size = 1 + c.r.IntN(64)
		}
		at := func(area int) int { return area + i*slotSize }
		wr := nicless.SendWR{ID: from.next + uint64(i), Flags: nicless.Signaled, RKey: to.mr.RKey()}
		switch c.r.IntN(5) {
		case 0:
			c.fill(from, at(atSource), size)
			wr.Op, wr.SGE, wr.RemoteAddr = nicless.Write, []nicless.SGE{from.mr.SGE(at(atSource), size)},
				remote+uint64(at(atTarget))
			copy(to.want[at(atTarget):][:size], from.want[at(atSource):])
		case 1:
			c.fill(to, at(atSource), size)
			wr.Op, wr.SGE, wr.RemoteAddr = nicless.Read, []nicless.SGE{from.mr.SGE(at(atResult), size)},
				remote+uint64(at(atSource))
			copy(from.want[at(atResult):][:size], to.want[at(atSource):])
		case 2:
			c.fill(from, at(atSource), size)
			inbox := atInbox + receives*slotSize
			if err := to.qp.PostRecv(&nicless.RecvWR{ID: to.got + uint64(receives),
				SGE: []nicless.SGE{to.mr.SGE(inbox, slotSize)}}); err != nil {
				return err
			}
			receives++
			wr.Op, wr.SGE = nicless.Send, []nicless.SGE{from.mr.SGE(at(atSource), size)}
			copy(to.want[inbox:][:size], from.want[at(atSource):])
		case 3:
			wr.Op, wr.SwapAdd = nicless.FetchAdd, c.r.Uint64()
			c.atomic(&wr, from, to, i, func(was uint64) uint64 { return was + wr.SwapAdd })
		case 4:
			wr.Op, wr.SwapAdd, wr.Compare = nicless.CompareSwap, c.r.Uint64(), c.r.Uint64()
			if c.r.IntN(2) == 0 {
				wr.Compare = binary.NativeEndian.Uint64(to.want[atWords+8*i:])
			}
			c.atomic(&wr, from, to, i, func(was uint64) uint64 {
				if was == wr.Compare {
					return wr.SwapAdd
				}
				return was
			})
		}
		if err := from.qp.PostSend(&wr); err != nil {
			return err
		}
		c.count.Bytes += uint64(size)
	}
	if err := from.take(from.send, &from.next, n); err != nil {
		return err
	}
	if err := to.take(to.recv, &to.got, receives); err != nil {
		return err
	}
	c.count.Longest = max(c.count.Longest, time.Since(began))
	c.count.Operations += uint64(n)
	for _, s := range c.sides {
		if err := errors.Join(s.check(), s.quiet()); err != nil {
			return err
		}
		c.count.Checked += sideSize
	}
	return nil
}

// fill writes random bytes into the memory of a side.
func (c *client) fill(s *side, at, n int) {
	b := s.want[at:][:n]
	for i := 0; i < n; i += 8 {
		var word [8]byte
		binary.NativeEndian.PutUint64(word[:], c.r.Uint64())
		copy(b[i:], word[:])
	}
	copy(s.mr.Bytes()[at:], b)
}

// atomic completes the request of an atomic, and says what it must do: exactly once.
func (c *client) atomic(wr *nicless.SendWR, from, to *side, i int, f func(was uint64) uint64) {
	word := to.want[atWords+8*i:][:8]
	at := atResult + i*slotSize
	wr.SGE, wr.RemoteAddr = []nicless.SGE{from.mr.SGE(at, 8)}, to.mr.Addr()+uint64(atWords+8*i)
	copy(from.want[at:][:8], word)
	binary.NativeEndian.PutUint64(word, f(binary.NativeEndian.Uint64(word)))
}
