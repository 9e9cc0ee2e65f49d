//go:build linux && (amd64 || arm64)

package torture

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nicless/nicless"
	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/internal/verdict"
)

// A visitor is a correct client that connects, moves a few messages and disconnects, again and
// again. It shows that the engine serves a new client whatever others do. It also keeps orphans.
type visitor struct {
	*waitMeter
	w     *wire
	spec  Spec
	count Count
	begin time.Duration // time at which the present connection began

	orphanSet
}

// An orphanSet is what a visitor keeps at an engine between visits: orphans, and for all of them
// one MR for their receives and one completion queue.
type orphanSet struct {
	ctx         *nicless.Context
	pd          *nicless.PD
	cq          *nicless.CQ
	mr          *nicless.MR
	orphans     []Orphan
	connectedAt time.Duration
}

// An Orphan is a queue pair whose peer has been destroyed. It still names the number of that
// peer, which is free again. It must not receive from the next queue pair that gets the number.
type Orphan struct {
	QPN  uint32
	Peer uint32 // the number that is free again
	Type uint8  // control.QP.Type
}

const (
	visitSize   = 4096
	visitWrites = 8
	visitPause  = 20 * time.Millisecond

	// The engine draws numbers at random. There are many orphans, so that the engine soon
	// draws the number of one of their peers again.
	mostOrphans  = 512
	orphansEach  = 8 // added with each visit
	orphanSize   = 64
	orphanOfRC   = 0
	orphanOfUC   = 1
	orphansKinds = 2
)

// runVisitor visits until it has the order to close.
func runVisitor(w *wire, spec Spec) error {
	g, err := newWaitMeter(&spec)
	if err != nil {
		return err
	}
	v := &visitor{waitMeter: g, w: w, spec: spec}
	v.count.ByOp = make(map[string]uint64)
	for {
		err := v.visit()
		switch {
		case verdict.Of(err) != nil:
			return v.fault(err)
		case err != nil:
			// The engine may be gone, or another engine may serve by now. The supervisor
			// knows which.
			w.send(Report{Is: isRefused, Begin: int64(v.begin), Fault: v.fault(err)})
			v.leave()
		}
		v.count.Stall = int64(v.longest)
		count := v.count
		w.send(Report{Is: isCount, Count: &count})
		select {
		case o, ok := <-w.Orders:
			if !ok {
				return errors.New("the supervisor is gone")
			}
			if o.Do == doClose {
				v.leave()
				return nil
			}
		case <-time.After(visitPause):
		}
	}
}

// leave closes what the visitor keeps at an engine.
func (v *visitor) leave() {
	if v.ctx != nil {
		_ = v.ctx.Close()
	}
	v.orphanSet = orphanSet{}
}

// step makes one call. The engine has to answer it soon.
func (v *visitor) step(what string, call func() error) error {
	m := v.mark()
	err := call()
	v.Rest()
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	if s := v.since(m, what); s != nil {
		v.w.send(Report{Is: isStall, Stall: s})
	}
	return nil
}

// visit is one short connection, from its beginning to its end.
func (v *visitor) visit() error {
	if err := v.addOrphans(); err != nil {
		return err
	}
	v.begin = verdict.Now()
	var ctx *nicless.Context
	err := v.step("a connection", func() (err error) {
		ctx, err = nicless.Dial(v.spec.Socket)
		return err
	})
	if err != nil {
		return err
	}
	defer ctx.Close()
	p, err := v.createObjects(ctx)
	if err != nil {
		return err
	}
	for i := range visitWrites {
		if err := v.write(p, byte(i)+1); err != nil {
			return err
		}
	}
	if err := v.step("the end of a connection", ctx.Close); err != nil {
		return err
	}
	v.begin = v.connectedAt
	return v.watch()
}

// visitObjects are what a visit needs: two queue pairs and their memory.
type visitObjects struct {
	cq   *nicless.CQ
	mr   *nicless.MR
	a, b *nicless.QP
}

func (v *visitor) createObjects(ctx *nicless.Context) (p visitObjects, err error) {
	var pd *nicless.PD
	for _, s := range []struct {
		what string
		call func() error
	}{
		{"a protection domain", func() (err error) { pd, err = ctx.AllocPD(); return err }},
		{"memory", func() (err error) { p.mr, err = pd.RegisterMemory(2*visitSize, nicless.FullAccess); return err }},
		{"a completion queue", func() (err error) { p.cq, err = ctx.CreateCQ(nicless.CQConfig{Entries: 16}); return err }},
		{"a queue pair", func() (err error) { p.a, err = pd.CreateQP(nicless.QPConfig{SendCQ: p.cq}); return err }},
		{"a queue pair", func() (err error) { p.b, err = pd.CreateQP(nicless.QPConfig{SendCQ: p.cq}); return err }},
		{"connected queue pairs", func() error { return nicless.Pair(p.a, p.b, nicless.Connection{}) }},
	} {
		if err = v.step(s.what, s.call); err != nil {
			return p, err
		}
	}
	return p, nil
}

// write makes the engine move a page, and checks the bytes.
func (v *visitor) write(p visitObjects, value byte) error {
	from, to := p.mr.Bytes()[:visitSize], p.mr.Bytes()[visitSize:]
	for i := range from {
		from[i] = value ^ byte(i)
	}
	var list [2]nicless.Completion
	n := 0
	err := v.step("the completion of a WRITE", func() (err error) {
		err = p.a.PostSend(&nicless.SendWR{
			Op: nicless.Write, Flags: nicless.Signaled, SGE: []nicless.SGE{p.mr.SGE(0, visitSize)},
			RemoteAddr: p.mr.Addr() + visitSize, RKey: p.mr.RKey(),
		})
		if err == nil {
			n, err = waitFor(p.cq, list[:], v.spec.hang())
		}
		if errors.Is(err, context.DeadlineExceeded) {
			return v.late(verdict.NoAnswer, v.current, fmt.Sprintf("the completion of a WRITE within %v", v.spec.hang()), "none has come")
		}
		return err
	})
	switch {
	case err != nil:
		return err
	case n == 1 && errors.Is(list[0].Err(), cqe.Flush):
		return list[0].Err() // an engine that is being stopped flushes; the supervisor knows about that
	case n != 1:
		return verdict.New(verdict.Repeated, "one completion of a WRITE", "%d completions", n)
	case list[0].Err() != nil:
		return verdict.New(verdict.Failed, "success", "a WRITE of a visitor: %v", list[0].Err())
	}
	if i := differ(to, from); i >= 0 {
		return verdict.New(verdict.WrongBytes, fmt.Sprintf("%#02x there", from[i]), "a WRITE of a visitor: byte %d is %#02x", i, to[i])
	}
	v.count.Operations++
	v.count.Bytes += visitSize
	v.count.Checked += visitSize
	v.count.Completions++
	v.count.ByOp[nicless.Write.String()]++
	return nil
}

// addOrphans makes more orphans. Their peers belong to a connection that is about to end.
func (v *visitor) addOrphans() error {
	if v.ctx == nil {
		v.connectedAt = verdict.Now()
		v.begin = v.connectedAt
		if err := v.createOrphanSet(); err != nil {
			return err
		}
	}
	v.begin = v.connectedAt
	if len(v.orphans) == mostOrphans {
		return nil
	}
	peer, err := nicless.Dial(v.spec.Socket)
	if err != nil {
		return err
	}
	defer peer.Close()
	theirs, err := peer.AllocPD()
	if err != nil {
		return err
	}
	cq, err := peer.CreateCQ(nicless.CQConfig{PollOnly: true})
	if err != nil {
		return err
	}
	for range orphansEach {
		if _, err := v.orphan(theirs, cq); err != nil {
			return err
		}
	}
	if err := peer.Close(); err != nil {
		return err
	}
	switch len(v.orphans) { // do this seldom, because a stopped process does not read its orders
	case mostOrphans / 8, mostOrphans / 2, mostOrphans:
		v.w.send(Report{Is: isOrphans, Orphans: v.orphans})
	}
	return nil
}

// createOrphanSet connects and creates the empty set.
func (v *visitor) createOrphanSet() (err error) {
	v.ctx, err = nicless.Dial(v.spec.Socket)
	if err != nil {
		return err
	}
	v.pd, err = v.ctx.AllocPD()
	if err != nil {
		return err
	}
	v.cq, err = v.ctx.CreateCQ(nicless.CQConfig{Entries: 2 * mostOrphans, PollOnly: true})
	if err != nil {
		return err
	}
	v.mr, err = v.pd.RegisterMemory(mostOrphans*orphanSize, nicless.LocalWrite)
	if err == nil {
		poisonAll(v.mr.Bytes())
	}
	return err
}

// orphan makes a queue pair with a receive. It connects that queue pair with another one, which
// it makes in the protection domain theirs and returns. The connection of that protection domain
// is about to end.
func (v *visitor) orphan(theirs *nicless.PD, cq *nicless.CQ) (*nicless.QP, error) {
	n := len(v.orphans)
	kind := uint8(n % orphansKinds)
	transport := [orphansKinds]nicless.Transport{orphanOfRC: nicless.RC, orphanOfUC: nicless.UC}[kind]
	qp, err := v.pd.CreateQP(nicless.QPConfig{Type: transport, SendCQ: v.cq, MaxSendWR: 1, MaxRecvWR: 1})
	if err != nil {
		return nil, err
	}
	if err := qp.PostRecv(
		&nicless.RecvWR{ID: uint64(n), SGE: []nicless.SGE{v.mr.SGE(n*orphanSize, orphanSize)}}); err != nil {
		return nil, err
	}
	peer, err := theirs.CreateQP(nicless.QPConfig{Type: transport, SendCQ: cq, MaxSendWR: 1, MaxRecvWR: 1})
	if err != nil {
		return nil, err
	}
	if err := nicless.Pair(qp, peer, nicless.Connection{}); err != nil {
		return nil, err
	}
	v.orphans = append(v.orphans, Orphan{QPN: qp.QPN(), Peer: peer.QPN(), Type: kind})
	return peer, nil
}

// watch checks that orphans have received nothing.
func (v *visitor) watch() error {
	var list [8]nicless.Completion
	n, err := v.cq.Poll(list[:])
	if err != nil {
		return err
	}
	for _, c := range list[:n] {
		if c.Err() == nil {
			o := v.orphans[c.ID]
			return verdict.New(verdict.WrongBytes, "nothing", "QP %#x, whose peer %#x is gone, has received %d bytes", o.QPN, o.Peer, c.ByteLen)
		}
	}
	if !isPoison(v.mr.Bytes()) {
		return wrong("a receive buffer of a queue pair whose peer is gone was overwritten")
	}
	return nil
}
