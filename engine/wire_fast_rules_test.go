package engine

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/nicless/nicless/engine/internal/linepacket"
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/engine/internal/recovery"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/packet"
	"github.com/nicless/nicless/wqe"
	"github.com/stretchr/testify/require"
)

// Scenes of the fast path over links: in each, a packet or a WQE may take it but for one rule.

// A crafted packet is one that arrives for a queue pair, right in everything that is not said.
type crafted struct {
	op      packet.Operation
	psn     uint32 // after the one that is expected, or the oldest that is not acknowledged
	port    int    // 1: it arrives through the other port
	path    uint32 // added to the number of the right path
	more    []byte // headers after the BTH
	payload []byte
}

// arrive puts packets for q into its port.
func (x *wireTarget) arrive(q *end, list ...crafted) {
	for _, k := range list {
		w := q.q.Wire
		op := rc(k.op)
		psn := w.In.PSN
		if op.Info().Response {
			psn = w.Out.UNA
		}
		head, payload, ok := x.c.to[q.side()^k.port].Reserve(op.Info().HeaderSize, len(k.payload))
		require.True(x, ok)
		packet.BTH{Opcode: op, AckReq: op.Info().Request, PKey: object.DefaultPKey, DestQP: q.num, PSN: packet.AddPSN(psn, k.psn)}.Put((*[packet.BTHSize]byte)(head))
		copy(head[packet.BTHSize:], k.more)
		copy(payload, k.payload)
		x.c.to[q.side()^k.port].Publish(w.Source + k.path)
	}
}

// watch returns the packets that the cable carries from now on, without acknowledgements: the
// fast path asks for fewer.
func (x *wireTarget) watch() *[]string {
	list := new([]string)
	x.c.seen = func(k *heldPacket) {
		b := packet.ParseBTH((*[packet.BTHSize]byte)(k.head))
		b.AckReq = false
		if b.Opcode != linepacket.ACKOnly || k.head[packet.BTHSize] != packet.SyndromeACK {
			*list = append(*list, fmt.Sprintf("path %d: %+v % x: % x", k.path, b, k.head[packet.BTHSize:], k.payload))
		}
	}
	return list
}

// completeInto makes a completion queue for the requester of the first pair, which is connected anew. This
// queue is compared.
func (x *wireTarget) completeInto(m control.CQ) {
	x.cqA = x.a.cq(m)
	x.cqA.lazy = true
	p, q := x.a.qp(control.QP{}, x.cqA, x.cqA), x.b.qp(control.QP{}, x.cqB, x.cqB)
	x.pairs[0] = [2]*end{p, q}
	p.up(q)
	q.up(p)
}

var (
	okAETH  = []byte{packet.SyndromeACK, 0, 0, 1}
	eight   = bytes.Repeat([]byte{0xa5}, 8)
	hundred = bytes.Repeat([]byte{0x5a}, 100)
)

func (x *wireTarget) postWrite(off, n int, flags uint8) {
	c := ctrl(wqe.OpRDMAWrite)
	c.Flags |= flags
	x.pairs[0][0].post(c, x.far.raddr(off), x.local.data(off, n))
}

func (x *wireTarget) postRead(off, n int) {
	x.pairs[0][0].post(ctrl(wqe.OpRDMARead), x.far.raddr(off), x.local.data(off, n))
}

// writes lets a WRITE of n bytes arrive for q.
func (x *wireTarget) writes(q *end, to []byte, n int) {
	x.arrive(q, crafted{op: packet.WriteOnly, more: to, payload: make([]byte, n)})
}

// reads lets READs of 8 bytes be on the way, and packets arrive for their queue pair then.
func (x *wireTarget) reads(n int, list ...crafted) {
	for i := range n {
		x.postRead(8*i, 8)
	}
	x.e.Step()
	x.arrive(x.pairs[0][0], list...)
}

var fastRuleScenes = map[string]func(x *wireTarget, p, q *end){
	"a WRITE through another port": func(x *wireTarget, p, q *end) {
		x.arrive(q, crafted{op: packet.WriteOnly, port: 1, more: readHeader(x.far, 0, 8), payload: eight})
	},
	"a long WRITE of another path": func(x *wireTarget, p, q *end) {
		x.arrive(q, crafted{op: packet.WriteOnly, path: 1, more: readHeader(x.far, 0, 100), payload: hundred})
	},
	"a READ of another path": func(x *wireTarget, p, q *end) {
		x.arrive(q, crafted{op: packet.ReadRequest, path: 1, more: readHeader(x.far, 0, 8)})
	},
	"a WRITE in a message": func(x *wireTarget, p, q *end) {
		x.arrive(q, crafted{op: packet.WriteFirst, more: readHeader(x.far, 0, 300), payload: make([]byte, 256)},
			crafted{op: packet.WriteOnly, psn: 1, more: readHeader(x.far, 256, 8), payload: eight})
	},
	"a READ with a payload": func(x *wireTarget, p, q *end) {
		x.arrive(q, crafted{op: packet.ReadRequest, more: readHeader(x.far, 0, 8), payload: eight})
	},
	"a READ after one whose answer is owed": func(x *wireTarget, p, q *end) {
		far := x.b.full(8192, 3)
		x.arrive(q, crafted{op: packet.ReadRequest, more: readHeader(far, 0, 8192)})
		x.e.ServePorts(true)
		require.NotZero(x, q.q.Wire.In.Due)
		x.arrive(q, crafted{op: packet.ReadRequest, more: readHeader(far, 16, 8)})
		x.e.ServePorts(true)
	},
	"a READ at the end of the budget": func(x *wireTarget, p, q *end) {
		left, psn := x.e.Settings.Slice, uint32(0)
		write := func(n int) {
			x.arrive(q, crafted{op: packet.WriteOnly, psn: psn, more: readHeader(x.far, 0, n), payload: make([]byte, n)})
			left -= n + object.PieceCost
			psn++
		}
		for left > 3*object.PieceCost {
			write(min(256, left-3*object.PieceCost))
		}
		write(left - 2*object.PieceCost)
		require.Equal(x, object.PieceCost, left)
		x.arrive(q, crafted{op: packet.ReadRequest, psn: psn, more: readHeader(x.far, 16, 8)})
		x.e.ServePorts(true)
	},
	"more WRITEs than the window": func(x *wireTarget, p, q *end) {
		p.q.Wire.Out.Window = recovery.Least
		for i := range recovery.Least + 2 {
			x.postWrite(8*i, 8, 0)
		}
		x.e.Step()
	},
	"more READs than the window": func(x *wireTarget, p, q *end) {
		p.q.Wire.Out.Window = recovery.Least
		for i := range recovery.Least + 2 {
			x.postRead(8*i, 8)
		}
		x.e.Step()
	},
	"a fence after a READ": func(x *wireTarget, p, q *end) {
		x.postRead(0, 8)
		x.postWrite(8, 8, wqe.FenceReads)
		x.e.Step()
	},
	"a fence in a series": func(x *wireTarget, p, q *end) {
		x.postRead(0, 8)
		x.postWrite(8, 8, 0)
		x.postWrite(16, 8, wqe.FenceReads)
		x.e.Step()
	},
	"a longer WRITE in a series": func(x *wireTarget, p, q *end) {
		x.postWrite(0, 8, 0)
		x.postWrite(8, 12, 0)
		x.e.Step()
	},
	"an ACK through another port": func(x *wireTarget, p, q *end) {
		x.postWrite(0, 8, 0)
		x.e.Step()
		x.arrive(p, crafted{op: packet.Acknowledge, port: 1, more: okAETH})
	},
	"an ACK of another path": func(x *wireTarget, p, q *end) {
		x.postWrite(0, 8, 0)
		x.e.Step()
		x.arrive(p, crafted{op: packet.Acknowledge, path: 1, more: okAETH})
	},
	"an ACK with a payload": func(x *wireTarget, p, q *end) {
		x.postWrite(0, 8, 0)
		x.e.Step()
		x.arrive(p, crafted{op: packet.Acknowledge, more: okAETH, payload: eight})
	},
	"an answer of another path": func(x *wireTarget, p, q *end) {
		x.postRead(0, 8)
		x.e.Step()
		x.arrive(p, crafted{op: packet.ReadResponseOnly, path: 1, more: okAETH, payload: eight})
	},
	"a long answer of another path": func(x *wireTarget, p, q *end) {
		x.postRead(0, 100)
		x.e.Step()
		x.arrive(p, crafted{op: packet.ReadResponseOnly, path: 1, more: okAETH, payload: hundred})
	},
	"the answer of a later READ": func(x *wireTarget, p, q *end) {
		x.postRead(0, 8)
		x.postRead(8, 8)
		x.e.Step()
		x.arrive(p, crafted{op: packet.ReadResponseOnly, psn: 1, more: okAETH, payload: eight})
	},
	"an ACK of READs": func(x *wireTarget, p, q *end) {
		x.postRead(0, 8)
		x.postRead(8, 8)
		x.e.Step()
		x.arrive(p, crafted{op: packet.Acknowledge, psn: 1, more: okAETH})
	},
	"an answer after its WQE has changed": func(x *wireTarget, p, q *end) {
		x.postRead(0, 8)
		x.e.Step()
		p.sq[15] ^= 1 // the immediate, which a READ does not use
		x.arrive(p, crafted{op: packet.ReadResponseOnly, more: okAETH, payload: eight})
	},
	"WRITEs whose completions are compressed": func(x *wireTarget, p, q *end) {
		x.c.fates.lose = 2 // the peer's own ACKs, which may be fewer
		x.completeInto(control.CQ{LogSize: 4, Flags: control.CQCompressed})
		x.postWrite(0, 8, 0)
		x.postWrite(8, 8, 0)
		x.e.Step()
		x.arrive(x.pairs[0][0], crafted{op: packet.Acknowledge, psn: 1, more: okAETH})
	},
	"WRITEs without room for their completions": func(x *wireTarget, p, q *end) {
		x.completeInto(control.CQ{LogSize: 1})
		x.postWrite(0, 8, 0)
		x.e.Step()
		x.arrive(x.pairs[0][0], crafted{op: packet.Acknowledge, more: okAETH})
		x.e.Step()
		x.postWrite(8, 8, 0)
		x.postWrite(16, 8, 0)
		x.e.Step()
		x.arrive(x.pairs[0][0], crafted{op: packet.Acknowledge, psn: 1, more: okAETH})
	},
	"a WRITE of another length than it says": func(x *wireTarget, p, q *end) { x.writes(q, readHeader(x.far, 0, 7), 8) },
	"a WRITE beyond the MTU":                 func(x *wireTarget, p, q *end) { x.writes(q, readHeader(x.far, 0, 260), 260) },
	"a WRITE without the queue pair's right": func(x *wireTarget, p, q *end) {
		q.q.Attr.Access = 0
		x.writes(q, readHeader(x.far, 0, 8), 8)
	},
	"a WRITE without the key's right": func(x *wireTarget, p, q *end) {
		x.writes(q, readHeader(x.b.key(64, control.AccessLocalWrite), 0, 8), 8)
	},
	"a WRITE with a key of another client": func(x *wireTarget, p, q *end) { x.writes(q, readHeader(x.local, 0, 8), 8) },
	"gaps": func(x *wireTarget, p, q *end) {
		write := crafted{op: packet.WriteOnly, more: readHeader(x.far, 0, 8), payload: eight}
		gap := write
		gap.psn = 2
		x.arrive(q, gap)
		x.e.Step()
		x.arrive(q, write)
		x.e.Step()
		x.arrive(q, gap)
	},
	"READs beyond the budget": func(x *wireTarget, p, q *end) {
		q.q.Attr.MaxDestRdAtomic = object.MostAnswers
		for i := range uint32(object.MostAnswers) {
			x.arrive(q, crafted{op: packet.ReadRequest, psn: i, more: readHeader(x.far, 0, 256)})
		}
		x.e.ServePorts(true)
	},
	"WRITEs on a link that is down": func(x *wireTarget, p, q *end) {
		x.c.ports[p.side()].SetUp(false)
		x.postWrite(0, 8, 0)
		x.e.Step()
	},
	"long WRITEs": func(x *wireTarget, p, q *end) {
		x.postWrite(0, 100, 0)
		x.postWrite(100, 100, 0)
		x.e.Step()
	},
	"more READs than the responder allows": func(x *wireTarget, p, q *end) {
		x.reads(int(p.q.Attr.MaxRdAtomic) + 1)
	},
	"an answer of another length": func(x *wireTarget, p, q *end) {
		x.reads(1, crafted{op: packet.ReadResponseOnly, more: okAETH, payload: eight[:7]})
	},
	"an ACK of the past": func(x *wireTarget, p, q *end) {
		x.postWrite(0, 8, 0)
		x.e.Step()
		x.arrive(p, crafted{op: packet.Acknowledge, psn: 1<<24 - 2, more: okAETH})
	},
	"a NAK": func(x *wireTarget, p, q *end) {
		x.postWrite(0, 8, 0)
		x.e.Step()
		x.arrive(p, crafted{op: packet.Acknowledge, more: []byte{packet.NAKInvalidRequest, 0, 0, 1}})
	},
	"WRITEs of which none is signaled": func(x *wireTarget, p, q *end) {
		x.c.fates.lose = 2
		for i := range 2 {
			p.post(silent(wqe.OpRDMAWrite), x.far.raddr(8*i), x.local.data(8*i, 8))
		}
		x.e.Step()
		x.arrive(p, crafted{op: packet.Acknowledge, psn: 1, more: okAETH})
	},
	"a READ in a series": func(x *wireTarget, p, q *end) {
		x.postWrite(0, 8, 0)
		x.postRead(8, 8)
		x.e.Step()
	},
}

// A packet that one rule forbids the fast path is left to the general path.
func TestWireFastPathRules(t *testing.T) {
	for name, scene := range fastRuleScenes {
		t.Run(name, func(t *testing.T) {
			w := newWireTwins(t)
			var carried [2]*[]string
			then := func(act func(x *wireTarget)) {
				for _, x := range w {
					act(x)
				}
				w.compare(t, nil)
				require.Equal(t, *carried[1], *carried[0], "packets")
			}
			for i, x := range w {
				carried[i] = x.watch()
			}
			then(func(x *wireTarget) { scene(x, x.pairs[0][0], x.pairs[0][1]) })
			then(func(x *wireTarget) { x.e.Step(); x.c.carry() })
			then((*wireTarget).settle)
		})
	}
}
