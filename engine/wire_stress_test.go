package engine

import (
	"encoding/binary"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/fabric/pool"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/wqe"
	"github.com/stretchr/testify/require"
)

// A linkBrawl is a brawl of queue pairs that are connected over links.
type linkBrawl struct {
	*brawl
	psn    atomic.Uint32
	failed atomic.Uint32 // connections that ended with an error
	cuts   int           // how often the link was cut
}

// join connects p with q, in this direction. Each connection has PSNs of its own: packets of an earlier one
// may still be on the way.
func (b *linkBrawl) join(p, q *end, psn uint32) {
	p.modify(p.toInit())
	p.overLink(q)
	rtr, rts := p.toRTR(q.num), p.toRTS()
	rtr.RQPSN, rts.SQPSN = psn, psn
	rts.Timeout, rts.RetryCount = 8, 7 // 1 ms
	p.modify(rtr)
	p.modify(rts)
}

func (b *linkBrawl) joinBoth(p, q *end) {
	for _, x := range []*end{p, q} {
		x.toState(control.StateRST)
		x.sent, x.received = 0, 0
		clear(x.rec)
		for _, c := range []*poller{x.scq, x.rcq} {
			c.all()
		}
	}
	psn := b.psn.Add(1) << 18 & 0xffffff
	b.join(p, q, psn)
	b.join(q, p, psn)
}

// work posts batches of work requests from p to q and takes their completions: each work request has
// exactly one, in order, and those after an error are flushed. It says whether all were good, and how
// many of its FETCH_ADDs were executed for certain, and at most.
func (b *linkBrawl) work(p, q *end, src, dst, word *key, rng *rand.Rand, seen map[uint64]bool) (good bool, least, most int) {
	const n = 8
	var ops [n]wqe.Opcode
	sends := 0
	clear(src.mem[:8*n])
	for i := range ops {
		off := 64 + rng.IntN(64)
		size := 1 + rng.IntN(900)
		ops[i] = []wqe.Opcode{wqe.OpAtomicFA, wqe.OpRDMAWrite, wqe.OpRDMARead, wqe.OpSend}[rng.IntN(4)]
		switch ops[i] {
		case wqe.OpAtomicFA:
			p.write(ctrl(wqe.OpAtomicFA), word.raddr(0), wqe.Atomic{SwapAdd: 1}, src.data(8*i, 8))
		case wqe.OpRDMAWrite:
			p.write(ctrl(wqe.OpRDMAWrite), dst.raddr(off), src.data(off, size))
		case wqe.OpRDMARead:
			p.write(ctrl(wqe.OpRDMARead), dst.raddr(1024), src.data(1024, size))
		case wqe.OpSend:
			q.recv(dst.data(2048, 1024))
			sends++
			p.write(ctrl(wqe.OpSend), src.data(off, size))
		}
	}
	p.ring()
	good = true
	for i, op := range ops {
		w := p.scq.await()
		if w.QPN != p.num || !good && w.Syndrome != cqe.Flush {
			b.Errorf("completion %d after an error: %+v", i, w)
		}
		if w.Syndrome != 0 && good {
			good = false
			if w.Syndrome != cqe.TransportRetry && w.Syndrome != cqe.Flush {
				b.Errorf("completion %d: %+v", i, w)
			}
		}
		if op != wqe.OpAtomicFA {
			continue
		}
		most++
		if good {
			least++
			old := binary.LittleEndian.Uint64(src.mem[8*i:])
			if seen[old] {
				b.Errorf("FETCH_ADD has found %d twice", old)
			}
			seen[old] = true
		}
	}
	if list := p.scq.all(); len(list) > 0 {
		b.Errorf("completions of nothing: %+v", list)
	}
	for range sends {
		if good {
			b.pass(q.rcq)
		}
	}
	return good, least, most
}

// trade lets two clients work over the link, and connects them again when the link has been away too long.
func (b *linkBrawl) trade(a, z *host, seed uint64) {
	p, q := a.qp(control.QP{}, a.cq(control.CQ{LogSize: 8}), a.cq(control.CQ{LogSize: 8})), z.qp(control.QP{}, z.cq(control.CQ{LogSize: 8}), z.cq(control.CQ{LogSize: 8}))
	src, dst, word := a.full(4096, 1), z.full(4096, 2), z.full(8, 0)
	clear(word.mem)
	b.joinBoth(p, q)
	rng := rand.New(rand.NewPCG(seed, 3))
	least, most, seen := 0, 0, map[uint64]bool{}
	rounds := 0
	b.fight(func(int) {
		good, l, m := b.work(p, q, src, dst, word, rng, seen)
		least, most = least+l, most+m
		if !good {
			b.failed.Add(1)
			b.joinBoth(p, q)
		}
		rounds++
		if rounds == b.rounds {
			q.toState(control.StateRST) // what is on the way comes too late
			if n := int(binary.LittleEndian.Uint64(word.mem)); n < least || n > most {
				b.Errorf("%d FETCH_ADDs were executed, %d to %d is right", n, least, most)
			}
		}
	})
}

// mourn lets a client work with peers that are killed in the middle of it.
func (b *linkBrawl) mourn(a *host) {
	p := a.qp(control.QP{}, a.cq(control.CQ{LogSize: 8}), a.cq(control.CQ{LogSize: 8}))
	src := a.full(4096, 1)
	rng := rand.New(rand.NewPCG(9, 9))
	port := b.cable.ports[0]
	b.fight(func(i int) {
		if i%20 > 0 {
			return
		}
		z := b.host("victim")
		q := z.qp(control.QP{}, z.cq(control.CQ{LogSize: 8}), z.cq(control.CQ{LogSize: 8}))
		dst, word := z.key(4096, control.AccessAll&^control.AccessZeroBased), z.full(8, 0)
		clear(word.mem)
		b.joinBoth(p, q)
		var dead sync.WaitGroup
		var ended atomic.Bool // perhaps by a cut
		dead.Go(func() {
			for from := port.Stats().Sent; port.Stats().Sent < from+uint64(i) && !ended.Load(); {
				runtime.Gosched()
			}
			_ = z.c.Close()
		})
		b.killed(p, src, dst, word, rng)
		ended.Store(true)
		dead.Wait()
	})
}

// killed posts and takes completions until the death of p's peer has ended the connection.
func (b *linkBrawl) killed(p *end, src, dst, word *key, rng *rand.Rand) {
	for range 1_000_000 {
		p.write(ctrl(wqe.OpAtomicFA), word.raddr(0), wqe.Atomic{SwapAdd: 1}, src.data(0, 8))
		p.write(ctrl(wqe.OpRDMAWrite), dst.raddr(0), src.data(0, 1+rng.IntN(3000)))
		p.write(ctrl(wqe.OpRDMARead), dst.raddr(0), src.data(0, 1+rng.IntN(3000)))
		p.ring()
		bad := false
		for range 3 {
			w := p.scq.await()
			if bad && w.Syndrome != cqe.Flush {
				b.Errorf("after an error: %+v", w)
			}
			bad = bad || w.Syndrome != 0
		}
		if bad {
			return
		}
	}
	b.Error("the client lives")
}

// cut takes the link down and up again, until all else has ended.
func (b *linkBrawl) cut(over *atomic.Bool) {
	ports := b.cable.ports
	until := func(what string, f func() bool) {
		b.until(what, func() bool { return f() || over.Load() })
	}
	for i := 0; !over.Load(); i++ {
		p := ports[i%2]
		sent := p.Stats().Sent
		until("packets are sent", func() bool { return p.Stats().Sent > sent+300 })
		lost := ports[1-i%2].Stats().Timeouts + p.Stats().Timeouts
		p.SetUp(false)
		b.cuts++
		until("timers run out", func() bool { return ports[1-i%2].Stats().Timeouts+p.Stats().Timeouts > lost+uint64(i*17%80) })
		p.SetUp(true)
	}
	for _, p := range ports {
		p.SetUp(true)
	}
}

// Clients of several shards work over links that lose packets, are cut and come back, while peers are killed.
// Each work request has exactly one completion, and each atomic is executed once.
func TestLinksInParallel(t *testing.T) {
	for name, link := range map[string]func(r *rig) *cable{
		"bad cable": func(r *rig) *cable {
			return r.newCable(nic.PortConfig{MTU: 256, Window: 8 << 10}, &fates{seed: 3, lose: 0.02, repeat: 0.02, reorder: 0.02})
		},
		"pool": func(r *rig) *cable { return r.newPool(pool.Config{MTU: 1024}) },
	} {
		t.Run(name, func(t *testing.T) {
			r := newShards(t, Config{Cores: []int{0, 1, 2}})
			rounds := rounds(60, 200)
			b := &linkBrawl{brawl: &brawl{rig: r, rounds: rounds}}
			s, u := pair(r.host("e"), r.host("f")) // within the engine
			c := link(r)
			c.hold = true
			r.start()
			var over atomic.Bool
			var around sync.WaitGroup
			around.Go(func() { b.cut(&over) })
			if c.fates != nil {
				around.Go(func() {
					for !over.Load() {
						if c.carryFrom(0)+c.carryFrom(1) > 0 {
							c.ports[0].Arrived()
						} else {
							runtime.Gosched()
						}
					}
				})
			}
			hosts := []*host{r.host("a"), r.host("b"), r.host("c")}
			for i, h := range hosts {
				b.trade(h, hosts[(i+1)%3], uint64(i))
			}
			b.mourn(r.host("d"))
			b.write(s, u)
			b.all.Wait()
			over.Store(true)
			around.Wait()
			t.Logf("%d cuts, %d connections ended with an error", b.cuts, b.failed.Load())
			require.NotZero(t, b.cuts)
			require.Less(t, int(b.failed.Load()), 3*rounds)
		})
	}
}
