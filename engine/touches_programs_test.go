package engine

import (
	"slices"
	"strings"

	"github.com/nicless/nicless/doorbell"
	"github.com/nicless/nicless/hostpath"
	cost "github.com/nicless/nicless/model"
	"github.com/nicless/nicless/model/traffic"
	"github.com/nicless/nicless/wqe"
	"github.com/stretchr/testify/require"
)

// posters are the queues of a stage as the host and the peer use them.
type posters struct {
	*stage
	sq *hostpath.SQ
	rq interface {
		PostRecvList([]hostpath.RecvWR) (int, error)
	}
	scq, rcq *hostpath.CQ

	execute func(steps func()) // lets the device execute what is announced; nil: some steps
}

// programRows returns the rows whose posting and polling is watched.
func programRows(all bool) (rows []touchRow) {
	for _, r := range touchRows(false) {
		possible, usual := false, slices.Contains([]string{"write", "send", "read"}, r.op)
		switch {
		case r.form.Inline && r.bytes%4 != 0: // some stores are to two blocks
		case r.form.InlineCQE && strings.HasPrefix(r.op, "masked"): // pollers refuse such results
		case r.op == "dump" && r.form.SGEs > 1: // programs cannot post this
		default:
			possible = true
		}
		if possible && (usual || all) && r.warm <= 17 && r.wqe == nil && !r.form.SlowPath && !r.form.Events && !r.form.Rested && !r.form.Prefetched {
			rows = append(rows, r)
		}
	}
	return rows
}

// programWindows is how many times runPrograms has something watched.
const programWindows = 4

// runPrograms executes the traffic of one row, and has the posting and polling of the last doorbell
// watched.
func (c *stepped) runPrograms(r touchRow) {
	p := &posters{stage: c.stage(r)}
	p.open()
	for range r.warm {
		p.doorbell(func(_ string, _ []touch, f func()) { f() })
	}
	p.doorbell(p.watchFor)
}

// open opens the queues of the stage.
func (p *posters) open() {
	c, uar := p.source.Config(), p.a.c.UAR.Bytes()
	register := uar[doorbell.BFOffset:][:doorbell.BFRegSize]
	sq := hostpath.SQConfig{Ring: p.p.sq, Record: p.p.rec, Register: register, QPN: p.p.num, MaxInline: wqe.MaxInline, MaxSGE: 30}
	if c.BlueFlame != 0 {
		sq.BlueFlame = uar[doorbell.UARPageSize+doorbell.BFOffset+(c.BlueFlame-1)*doorbell.BFRegSize:][:doorbell.BFRegSize]
	}
	var err error
	p.sq, err = hostpath.NewSQ(sq)
	require.NoError(p, err)
	theirs := &hostpath.QP{QPN: p.q.num}
	if p.srq != nil {
		theirs.SRQ, err = hostpath.NewSRQ(hostpath.SRQConfig{Ring: p.srq.ring, Stride: c.Stride, Record: p.srq.rec})
		p.rq = theirs.SRQ
	} else {
		theirs.RQ, err = hostpath.NewRQ(hostpath.RQConfig{Ring: p.q.rq, Stride: c.Stride, Record: p.q.rec})
		p.rq = theirs.RQ
	}
	require.NoError(p, err)
	p.scq = p.openCQ(p.p.scq, c, &hostpath.QP{SQ: &p.sq.SendRing, QPN: p.p.num})
	p.rcq = p.openCQ(p.q.rcq, c, theirs)
}

func (p *posters) openCQ(c *poller, config traffic.Config, qp *hostpath.QP) *hostpath.CQ {
	t := new(hostpath.Table)
	for i := uint32(0); i < uidx; {
		var err error
		i, err = t.Alloc()
		require.NoError(p, err)
	}
	t.Set(uidx, qp)
	q, err := hostpath.NewCQ(hostpath.CQConfig{
		Ring: c.ring, EntrySize: int(c.entry), Record: c.rec, CQN: c.num, Table: t,
		Memory: func(key uint32, addr uint64, n int) []byte {
			for _, h := range []*host{p.a, p.b} {
				if m := p.e.Keys.Find(key); m != nil && m.Client == h.c.Client {
					return h.mem.Bytes()[addr-h.base:][:n]
				}
			}
			return nil
		},
	})
	require.NoError(p, err)
	return q
}

// doorbell lets the traffic go on by one doorbell. watch is called with each part of what the
// programs do, and what they are expected to touch.
func (p *posters) doorbell(watch func(what string, want []touch, f func())) {
	list, err := p.source.Next()
	require.NoError(p, err)
	before := len(p.x.Trace().Accesses)
	require.NoError(p, p.x.Expand(list...), p.row.name)
	idle, news := split(p.x.Trace().Accesses[before:])

	var sends []hostpath.SendWR
	var recvs []hostpath.RecvWR
	completions := 0
	for i := range list {
		wr := p.sendWR(list[i].WQE)
		if wr.Flags&hostpath.Signaled != 0 {
			completions++
		}
		sends = append(sends, wr)
		if list[i].Receive != nil {
			recvs = append(recvs, p.recvWR(list[i].Receive))
		}
	}
	dst := make([]hostpath.Completion, len(list)+1)
	poll := func(q *hostpath.CQ, n, want int) {
		if n > 0 && want >= 0 {
			got := q.Poll(dst[:n])
			if want != got {
				panic("another number of completions")
			}
		}
	}
	check := func(n int, err error) {
		if err != nil {
			panic(err)
		}
	}
	watch("receives", touchesOf(idle, cost.Peer, cost.RxWQE, cost.Record), func() {
		if len(recvs) > 0 {
			check(p.rq.PostRecvList(recvs))
		}
	})
	p.e.Step()
	watch("polls in vain", append(touchesOf(idle, cost.Peer, cost.CQE), touchesOf(idle, cost.Host, cost.CQE)...), func() {
		poll(p.rcq, min(len(recvs), 1), 0)
		poll(p.scq, min(completions, 1), 0)
	})
	for _, r := range list {
		p.p.sent += uint16(len(r.WQE) / wqe.BlockSize)
	}
	posting, rest := splitPosting(news)
	watch("posting", p.posting(list, posting), func() { check(p.sq.PostList(sends)) })
	if p.execute != nil {
		p.execute(p.stepsUntilDone)
	} else {
		for range 8 {
			p.e.Step()
		}
	}
	kinds := []cost.Kind{cost.CQE, cost.CI, cost.Payload, cost.WQE, cost.RxWQE}
	polls := append(touchesOf(rest, cost.Peer, kinds...), touchesOf(rest, cost.Host, kinds...)...)
	watch("polls", polls, func() {
		poll(p.rcq, len(recvs), len(recvs))
		poll(p.scq, completions, completions)
	})
	for _, c := range dst[:max(len(recvs), completions)] {
		require.NoError(p, c.Err(), p.row.name)
	}
}

// stepsUntilDone makes the fewest steps that execute all that is announced.
func (p *posters) stepsUntilDone() {
	p.e.Sched.Turn = 0 // in every 32nd step the device does more
	for p.p.q.SQ.Done != uint64(p.p.sent) {
		p.e.Step()
	}
}

// splitPosting divides the accesses from the posting on: those up to the doorbell, and the rest.
func splitPosting(list []cost.Access) (posting, rest []cost.Access) {
	for i, a := range slices.Backward(list) {
		if a.Who == cost.Host && (a.Kind == cost.Record || a.Kind == cost.UAR) {
			return list[:i+1], list[i+1:]
		}
	}
	return nil, list
}

// posting returns what the host is expected to touch when it posts. After it has written the WQEs it
// copies the doorbell from the last of them, or a WQE into the BlueFlame register. This read of a line
// that it has just written is not in the trace.
func (p *posters) posting(list []traffic.Request, news []cost.Access) []touch {
	want := touchesOf(news, cost.Host, cost.WQE)
	if !p.row.form.BlueFlame || len(list) == 1 && len(list[0].WQE) == wqe.BlockSize {
		last := int(p.p.sent) - len(list[len(list)-1].WQE)/wqe.BlockSize
		want = append(want, touch{Region: traffic.SendRing, Index: last % (len(p.p.sq) / wqe.BlockSize), N: 1})
	}
	return append(want, touchesOf(news, cost.Host, cost.Record, cost.UAR)...)
}

// touchesOf returns what an agent is expected to touch of some kinds of lines. Of payloads these are
// the stores of those that pollers copy from CQEs.
func touchesOf(list []cost.Access, who cost.Agent, kinds ...cost.Kind) []touch {
	var some []cost.Access
	for _, a := range list {
		if slices.Contains(kinds, a.Kind) && (a.Kind != cost.Payload || a.Op == cost.Store) {
			some = append(some, a)
		}
	}
	return expected(some, who)
}

// sendWR returns the work request for a WQE.
func (p *posters) sendWR(b []byte) (wr hostpath.SendWR) {
	v, err := wqe.Parse(b, wqe.NoAddress)
	require.NoError(p, err)
	wr.Op = map[wqe.Opcode]hostpath.Op{
		wqe.OpRDMAWrite: hostpath.OpWrite, wqe.OpRDMAWriteImm: hostpath.OpWriteImm, wqe.OpRDMARead: hostpath.OpRead,
		wqe.OpSend: hostpath.OpSend, wqe.OpSendImm: hostpath.OpSendImm, wqe.OpAtomicFA: hostpath.OpFetchAdd, wqe.OpAtomicCS: hostpath.OpCompareSwap,
		wqe.OpAtomicMaskedFA: hostpath.OpMaskedFetchAdd, wqe.OpAtomicMaskedCS: hostpath.OpMaskedCompareSwap,
		wqe.OpNop: hostpath.OpNop, wqe.OpDump: hostpath.OpDump, wqe.OpMMO: hostpath.OpCopy,
	}[v.Ctrl.Opcode]
	wr.Imm = v.Ctrl.Imm
	if v.Ctrl.Flags&wqe.CEAlways != 0 {
		wr.Flags = hostpath.Signaled
	}
	for it := v.Segments(); ; {
		s, ok := it.Next()
		if !ok {
			return wr
		}
		switch s.Kind {
		case wqe.KindRaddr:
			r := wqe.ParseRaddr((*[wqe.RaddrSize]byte)(s.Bytes))
			wr.RemoteAddr, wr.RKey = r.Addr, r.RKey
		case wqe.KindData:
			wr.SGE = append(wr.SGE, sge(s.Bytes))
		case wqe.KindInline:
			wr.Data = s.InlineData()
		case wqe.KindAtomic:
			a := wqe.ParseAtomic((*[wqe.AtomicSize]byte)(s.Bytes))
			wr.SwapAdd, wr.Compare = a.SwapAdd, a.Compare
		case wqe.KindMaskedFA8:
			wr.SwapAdd, wr.Mask = 1, new(hostpath.Mask)
		case wqe.KindMaskedCS8:
			m := wqe.ParseMaskedCS8((*[wqe.MaskedCS8Size]byte)(s.Bytes))
			wr.SwapAdd, wr.Compare, wr.Mask = m.Swap, m.Compare, &hostpath.Mask{Swap: m.SwapMask, Compare: m.CompareMask}
		}
	}
}

func sge(b []byte) hostpath.SGE {
	d := wqe.ParseData((*[wqe.DataSize]byte)(b))
	return hostpath.SGE{Addr: d.Addr, Length: d.ByteCount, LKey: d.LKey}
}

// recvWR returns the work request for an entry of a receive queue.
func (p *posters) recvWR(entry []byte) (wr hostpath.RecvWR) {
	if p.srq != nil {
		entry = entry[wqe.SRQNextSize:]
	}
	for list := wqe.RecvList(entry); ; {
		b := list
		if _, ok := list.Next(); !ok {
			return wr
		}
		wr.SGE = append(wr.SGE, sge(b[:wqe.DataSize]))
	}
}
