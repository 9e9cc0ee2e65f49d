package engine

import (
	"encoding/binary"
	"fmt"
	"sync"
	"testing"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/shm"
	"github.com/nicless/nicless/wqe"
	"github.com/stretchr/testify/require"
)

// A brawl is many posters, each a goroutine, on shards that run. Their work crosses shards in
// both directions at the same time. Every byte and every completion is checked. Under the
// race detector every access to what shards share is checked too.
type brawl struct {
	*rig
	rounds int
	all    sync.WaitGroup
}

func (b *brawl) fight(f func(round int)) {
	b.all.Go(func() {
		for i := range b.rounds {
			f(i)
		}
	})
}

// pass requires the next completion of c to be good.
func (b *brawl) pass(c *poller) cqe.WC {
	w := c.await()
	if w.Status != cqe.StatusSuccess {
		b.Errorf("%v", w)
	}
	return w
}

func (b *brawl) write(p, q *end) {
	const n = 300
	src, dst := p.h.full(n, 1), q.h.full(n, 2)
	b.fight(func(i int) {
		copy(src.mem, pattern(n, byte(i)))
		p.post(ctrl(wqe.OpRDMAWrite), dst.raddr(0), src.data(0, n))
		b.pass(p.scq)
		b.same(src.mem, dst.mem, "written")
		clear(src.mem)
		p.post(ctrl(wqe.OpRDMARead), dst.raddr(0), src.data(0, n))
		b.pass(p.scq)
		b.same(pattern(n, byte(i)), src.mem, "read")
	})
}

// talk sends messages from p to q. Some messages are longer than a slice. Half of the
// receives are posted after the message.
func (b *brawl) talk(p, q *end) {
	const n = 5000
	src, dst := p.h.full(n, 1), q.h.full(n, 2)
	turn := make(chan int)
	b.fight(func(i int) {
		size := 1 + i*37%n
		copy(src.mem, pattern(size, byte(i)))
		if i%2 == 0 {
			q.recv(dst.data(0, n))
		}
		p.post(ctrl(wqe.OpSend), src.data(0, size))
		turn <- size
		b.pass(p.scq)
		<-turn
	})
	b.fight(func(i int) {
		size := <-turn
		if i%2 == 1 {
			q.recv(dst.data(0, n))
		}
		w := b.pass(q.rcq)
		require.Equal(b, uint32(size), w.ByteLen)
		b.same(pattern(size, byte(i)), dst.mem[:size], "message")
		turn <- 0
	})
}

// count makes p add to a word to which other queue pairs add too.
func (b *brawl) count(p *end, word *key) {
	old := p.h.full(8, 0)
	last := uint64(0)
	b.fight(func(i int) {
		p.post(ctrl(wqe.OpAtomicFA), word.raddr(0), wqe.Atomic{SwapAdd: 1}, old.data(0, 8))
		b.pass(p.scq)
		if now := binary.LittleEndian.Uint64(old.mem); i > 0 && now <= last {
			b.Errorf("the counter was %d, then %d", last, now)
		} else {
			last = now
		}
	})
}

// lend makes q bind a window. Then it makes p write through the window and invalidate it
// with a message.
func (b *brawl) lend(p, q *end) {
	mem, src := q.h.full(64, 1), p.h.full(64, 2)
	window := q.h.window(2)
	b.fight(func(i int) {
		tag := uint8(i)
		q.post(umr(window), q.bind(2, tag, mem, 0, 64, mkeyAll)...)
		b.pass(q.scq)
		window = window&^0xff | uint32(tag)
		copy(src.mem, pattern(64, tag))
		q.recv()
		p.post(silent(wqe.OpRDMAWrite), wqe.Raddr{Addr: mem.addr, RKey: window}, src.data(0, 64))
		c := ctrl(wqe.OpSendInval)
		c.Imm = window
		p.post(c)
		b.pass(p.scq)
		b.pass(q.rcq)
		b.same(src.mem, mem.mem, "through a window")
	})
}

// list makes q fill a list, and makes p read through the list's key.
func (b *brawl) list(p, q *end) {
	one, two, dst := q.h.full(64, 1), q.h.full(64, 2), p.h.full(64, 3)
	m := q.h.mkey(2)
	b.fight(func(i int) {
		from := i % 33
		q.post(umr(m), fill(m, mkeyAll, 64, one.klm(from, 31), two.klm(i%31, 33))...)
		b.pass(q.scq)
		p.post(ctrl(wqe.OpRDMARead), wqe.Raddr{RKey: m}, dst.data(0, 64))
		b.pass(p.scq)
		b.same(one.mem[from:from+31], dst.mem[:31], "through a list")
		b.same(two.mem[i%31:][:33], dst.mem[31:], "through a list")
	})
}

// wrong makes p write with an unknown remote key, which puts both queue pairs into error.
// Then it connects them again.
func (b *brawl) wrong(p, q *end) {
	src := p.h.full(64, 1)
	b.fight(func(i int) {
		if i%20 != 0 {
			return
		}
		q.recv()
		p.post(ctrl(wqe.OpRDMAWrite), wqe.Raddr{RKey: 0xbad00}, src.data(0, 64))
		require.Equal(b, cqe.RemoteAccess, p.scq.await().Syndrome)
		require.Equal(b, cqe.Flush, q.rcq.await().Syndrome)
		p.reset(q)
		q.reset(p)
	})
}

// vanish puts one end into error or resets it, or settles, while long transfers are in flight
// in both directions.
func (b *brawl) vanish(p, q *end) {
	const n = 20_000
	near, far := p.h.full(n, 1), q.h.full(n, 2)
	into, from := p.h.full(n, 3), q.h.full(n, 4)
	b.fight(func(i int) {
		if i%10 != 0 {
			return
		}
		p.post(silent(wqe.OpRDMAWrite), far.raddr(0), near.data(0, n))
		q.post(silent(wqe.OpRDMAWrite), into.raddr(0), from.data(0, n))
		switch i / 10 % 4 {
		case 0:
			p.toState(control.StateERR)
		case 1:
			q.toState(control.StateRST)
		case 2:
			p.h.c.Drain()
			b.same(near.mem, far.mem, "settled")
		}
		p.reset(q)
		q.reset(p)
		p.scq.all()
		q.scq.all()
	})
}

// pool makes several hosts send to queue pairs of h. These queue pairs share receives and a
// completion queue.
func (b *brawl) pool(h *host, from ...*host) {
	s := h.srq(control.SRQ{LogSize: 4})
	c := h.cq(control.CQ{LogSize: 8})
	mem := h.full(16*64, 1)
	for i := range 16 {
		s.put(uint16(i), mem.data(i*64, 64))
	}
	for _, g := range from {
		gc := g.cq(control.CQ{LogSize: 8})
		p, q := g.qp(control.QP{}, gc, gc), s.on(control.QPTypeRC, c)
		p.up(q)
		q.up(p)
		src := g.full(64, 5)
		b.fight(func(int) {
			p.post(ctrl(wqe.OpSend), src.data(0, 64))
			b.pass(p.scq)
		})
	}
	free := 16 // number of entries that are not announced to the device
	b.all.Go(func() {
		head := 0 // entries are used in order, because an entry is announced again after all others
		for got := 0; got < len(from)*b.rounds; got++ {
			if free > 0 {
				s.post(free)
				free = 0
			}
			w := b.pass(c)
			if int(w.Counter) != head%16 {
				b.Errorf("entry %d, %d was next", w.Counter, head%16)
			}
			head++
			free++
		}
	})
}

// churn makes clients that do a little work and end, while the others work.
func (b *brawl) churn(h *host) {
	b.fight(func(i int) {
		if i%10 != 0 {
			return
		}
		c, err := b.d.nic().NewLocal(fmt.Sprintf("passer-by %d", i))
		require.NoError(b, err)
		mem, err := shm.Heap(1 << 16)
		require.NoError(b, err)
		g := &host{rig: b.rig, c: c, mem: mem, base: 0x1000_0000}
		g.addRegion(g.base, mem)
		g.pd = g.allocPD()
		p, _ := pair(g, g)
		p.post(ctrl(wqe.OpNop))
		b.pass(p.scq)
		require.NoError(b, c.Close())
	})
}

func TestShardsInParallel(t *testing.T) {
	for _, row := range []struct {
		name  string
		cores []int
		stay  bool
	}{{"two", []int{0, 1}, true}, {"three", []int{0, 1, 2}, true}, {"clients that move", []int{0, 1, 2}, false}} {
		t.Run(row.name, func(t *testing.T) {
			b := &brawl{rig: newShards(t, Config{Slice: 4096, Cores: row.cores}), rounds: rounds(200, 400)}
			b.e.Settings.Stay = row.stay
			h := []*host{b.host("a"), b.host("b"), b.host("c"), b.host("d")}
			b.start()
			link := func(i, j int) (*end, *end) { return pair(h[i], h[j]) }
			word := h[1].full(8, 0)
			clear(word.mem)
			for i := range h {
				j := (i + 1) % len(h)
				b.write(link(i, j))
				b.talk(link(i, j))
				b.talk(link(j, i))
				b.lend(link(i, j))
				b.list(link(j, i))
				b.wrong(link(i, j))
				b.vanish(link(i, j))
				p, _ := link(i, 1)
				b.count(p, word)
			}
			b.pool(h[0], h[1], h[2], h[3])
			b.pool(h[1], h[0], h[0])
			b.churn(h[0])
			b.all.Wait()
			require.Equal(t, uint64(len(h)*b.rounds), binary.LittleEndian.Uint64(word.mem))
		})
	}
}
