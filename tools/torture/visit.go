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
// again. It shows that the engine serves a new client whatever others do. It also keeps half-open
// queue pairs.
type visitor struct {
	*waitMeter
	w     *wire
	spec  Spec
	count Count
	begin time.Duration // time at which the present connection began

	halfOpenSet
}

// A halfOpenSet is what a visitor keeps at an engine between visits: half-open queue pairs, one MR for
// all their receives, and one completion queue for all of them.
type halfOpenSet struct {
	ctx         *nicless.Context
	pd          *nicless.PD
	cq          *nicless.CQ
	mr          *nicless.MR
	halfOpen    []HalfOpenQP
	connectedAt time.Duration
}

// A HalfOpenQP is a queue pair whose peer has been destroyed. It still names the number of the
// destroyed peer, which is free again. A half-open queue pair must not receive from the next queue
// pair that gets the number.
type HalfOpenQP struct {
	QPN  uint32
	Peer uint32 // the number that is free again
	Type uint8  // control.QP.Type
}

const (
	visitSize   = 4096
	visitWrites = 8
	visitPause  = 20 * time.Millisecond

	// The engine draws numbers at random. There are many half-open queue pairs, so that the engine
	// soon draws the number of one of their peers again.
	mostHalfOpen  = 512
	halfOpenEach  = 8 // half-open queue pairs that each visit adds
	halfOpenSize  = 64
	halfOpenRC    = 0
	halfOpenUC    = 1
	halfOpenKinds = 2
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
	v.halfOpenSet = halfOpenSet{}
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
	if err := v.addHalfOpen(); err != nil {
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

// addHalfOpen makes more half-open queue pairs. Their peers belong to a connection that is about to end.
func (v *visitor) addHalfOpen() error {
	if v.ctx == nil {
		v.connectedAt = verdict.Now()
		v.begin = v.connectedAt
		if err := v.createHalfOpenSet(); err != nil {
			return err
		}
	}
	v.begin = v.connectedAt
	if len(v.halfOpen) == mostHalfOpen {
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
	for range halfOpenEach {
		if _, err := v.makeHalfOpen(theirs, cq); err != nil {
			return err
		}
	}
	if err := peer.Close(); err != nil {
		return err
	}
	switch len(v.halfOpen) { // do this seldom, because a stopped process does not read its orders
	case mostHalfOpen / 8, mostHalfOpen / 2, mostHalfOpen:
		v.w.send(Report{Is: isHalfOpen, HalfOpen: v.halfOpen})
	}
	return nil
}

// createHalfOpenSet connects and creates the empty set.
func (v *visitor) createHalfOpenSet() (err error) {
	v.ctx, err = nicless.Dial(v.spec.Socket)
	if err != nil {
		return err
	}
	v.pd, err = v.ctx.AllocPD()
	if err != nil {
		return err
	}
	v.cq, err = v.ctx.CreateCQ(nicless.CQConfig{Entries: 2 * mostHalfOpen, PollOnly: true})
	if err != nil {
		return err
	}
	v.mr, err = v.pd.RegisterMemory(mostHalfOpen*halfOpenSize, nicless.LocalWrite)
	if err == nil {
		poisonAll(v.mr.Bytes())
	}
	return err
}

// makeHalfOpen makes a queue pair with a receive. It connects that queue pair with another one, which
// it makes in the protection domain theirs and returns. The connection of that protection domain
// is about to end.
func (v *visitor) makeHalfOpen(theirs *nicless.PD, cq *nicless.CQ) (*nicless.QP, error) {
	n := len(v.halfOpen)
	kind := uint8(n % halfOpenKinds)
	transport := [halfOpenKinds]nicless.Transport{halfOpenRC: nicless.RC, halfOpenUC: nicless.UC}[kind]
	qp, err := v.pd.CreateQP(nicless.QPConfig{Type: transport, SendCQ: v.cq, MaxSendWR: 1, MaxRecvWR: 1})
	if err != nil {
		return nil, err
	}
	buffer := v.mr.SGE(n*halfOpenSize, halfOpenSize)
	if err := qp.PostRecv(&nicless.RecvWR{ID: uint64(n), SGE: []nicless.SGE{buffer}}); err != nil {
		return nil, err
	}
	peer, err := theirs.CreateQP(nicless.QPConfig{Type: transport, SendCQ: cq, MaxSendWR: 1, MaxRecvWR: 1})
	if err != nil {
		return nil, err
	}
	if err := nicless.Pair(qp, peer, nicless.Connection{}); err != nil {
		return nil, err
	}
	v.halfOpen = append(v.halfOpen, HalfOpenQP{QPN: qp.QPN(), Peer: peer.QPN(), Type: kind})
	return peer, nil
}

// watch checks that half-open queue pairs have received nothing.
func (v *visitor) watch() error {
	var list [8]nicless.Completion
	n, err := v.cq.Poll(list[:])
	if err != nil {
		return err
	}
	for _, c := range list[:n] {
		if c.Err() == nil {
			o := v.halfOpen[c.ID]
			return verdict.New(verdict.WrongBytes, "nothing", "QP %#x, whose peer %#x is gone, has received %d bytes", o.QPN, o.Peer, c.ByteLen)
		}
	}
	if !isPoison(v.mr.Bytes()) {
		return wrong("a receive buffer of a queue pair whose peer is gone was overwritten")
	}
	return nil
}
