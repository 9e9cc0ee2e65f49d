package torture

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nicless/nicless"
)

// A visitor is a correct client that connects again and again, moves a few messages
// and leaves: whatever others take of the engine, who comes now is served. Beside that
// it keeps orphans.
type visitor struct {
	*gauge
	w     *wire
	spec  Spec
	count Count
	begin time.Time // of the visit

	home    *nicless.Context
	orphans []*orphan
}

// An Orphan is a queue pair whose peer is gone: it names a number that nobody has any
// more, and must not receive from whoever is given that number next.
type Orphan struct {
	QPN  uint32
	Peer uint32 // the number that is free again
	Type uint8  // as in control.QP
}

type orphan struct {
	Orphan
	qp   *nicless.QP
	cq   *nicless.CQ
	mr   *nicless.MR
	peer *nicless.QP // as it was
}

const (
	visitSize    = 4096
	visitWrites  = 8
	orphanRecvs  = 4
	orphansEach  = 4 // of RC, and of UC
	visitPause   = 20 * time.Millisecond
	visitorKinds = 2
)

// runVisitor visits until it is told to close.
func runVisitor(w *wire, spec Spec) error {
	g, err := newGauge(&spec)
	if err != nil {
		return err
	}
	v := &visitor{gauge: g, w: w, spec: spec}
	v.count.ByOp = make(map[string]uint64)
	for {
		v.begin = time.Now()
		err := v.visit()
		wrong := (*corruption)(nil)
		switch {
		case errors.As(err, &wrong):
			return err
		case err != nil:
			// No engine, perhaps: the supervisor knows.
			w.say(Report{Is: isRefused, Begin: v.begin.UnixNano(), Text: err.Error()})
			v.leave()
		}
		v.count.Stall = int64(v.longest)
		count := v.count
		w.say(Report{Is: isCount, Count: &count})
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

// leave gives up what it keeps of an engine.
func (v *visitor) leave() {
	if v.home != nil {
		_ = v.home.Close()
	}
	v.home, v.orphans = nil, nil
}

// step is one call, which the engine has to answer soon.
func (v *visitor) step(what string, call func() error) error {
	m := v.mark()
	err := call()
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	if s := v.since(m, what); s != nil {
		v.w.say(Report{Is: isStall, Stall: s})
	}
	return nil
}

// visit is a short life of a client, from its connection to its end.
func (v *visitor) visit() error {
	if err := v.settle(); err != nil {
		return err
	}
	var ctx *nicless.Context
	err := v.step("a connection", func() (err error) {
		ctx, err = nicless.Dial(v.spec.Socket)
		return err
	})
	if err != nil {
		return err
	}
	defer ctx.Close()
	p, err := v.furnish(ctx)
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
	return v.watch()
}

// A parlour is what a visit needs: two queue pairs and their memory.
type parlour struct {
	cq   *nicless.CQ
	mr   *nicless.MR
	a, b *nicless.QP
}

func (v *visitor) furnish(ctx *nicless.Context) (p parlour, err error) {
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

// write has the engine move some bytes, and checks them.
func (v *visitor) write(p parlour, value byte) error {
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
			n, err = waitFor(p.cq, list[:])
		}
		if errors.Is(err, context.DeadlineExceeded) {
			return corrupt("a WRITE of a visitor did not complete within %v", hangTime)
		}
		return err
	})
	switch {
	case err != nil:
		return err
	case n != 1 || list[0].Err() != nil:
		return corrupt("a WRITE of a visitor: %d completions, %v", n, list[0].Err())
	}
	if i := differ(to, from); i >= 0 {
		return corrupt("a WRITE of a visitor: byte %d is %#02x, want %#02x", i, to[i], from[i])
	}
	v.count.Operations++
	v.count.Bytes += visitSize
	v.count.Checked += visitSize
	v.count.Completions++
	v.count.ByOp[nicless.Write.String()]++
	return nil
}

// settle has orphans made where there are none: their peers are of a connection that
// ends.
func (v *visitor) settle() error {
	if v.home != nil {
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
	if v.home, err = nicless.Dial(v.spec.Socket); err != nil {
		return err
	}
	pd, err := v.home.AllocPD()
	if err != nil {
		return err
	}
	for i := range visitorKinds * orphansEach {
		o, err := v.orphan(pd, theirs, cq, uint8(i%visitorKinds))
		if err != nil {
			return err
		}
		v.orphans = append(v.orphans, o)
	}
	if err := peer.Close(); err != nil {
		return err
	}
	names := make([]Orphan, len(v.orphans))
	for i, o := range v.orphans {
		names[i] = o.Orphan
	}
	v.w.say(Report{Is: isOrphans, Orphans: names})
	return nil
}

// orphan connects a queue pair that has receives with one of a connection that is about
// to end.
func (v *visitor) orphan(pd, theirs *nicless.PD, their *nicless.CQ, kind uint8) (*orphan, error) {
	o := &orphan{}
	var err error
	if o.cq, err = v.home.CreateCQ(nicless.CQConfig{PollOnly: true}); err != nil {
		return nil, err
	}
	if o.mr, err = pd.RegisterMemory(orphanRecvs*visitSize, nicless.LocalWrite); err != nil {
		return nil, err
	}
	poisonAll(o.mr.Bytes())
	transport := [visitorKinds]nicless.Transport{nicless.RC, nicless.UC}[kind]
	if o.qp, err = pd.CreateQP(nicless.QPConfig{Type: transport, SendCQ: o.cq, MaxRecvWR: orphanRecvs}); err != nil {
		return nil, err
	}
	for i := range orphanRecvs {
		if err := o.qp.PostRecv(&nicless.RecvWR{ID: uint64(i), SGE: []nicless.SGE{o.mr.SGE(i*visitSize, visitSize)}}); err != nil {
			return nil, err
		}
	}
	qp, err := theirs.CreateQP(nicless.QPConfig{Type: transport, SendCQ: their})
	if err != nil {
		return nil, err
	}
	if err := nicless.Pair(o.qp, qp, nicless.Connection{}); err != nil {
		return nil, err
	}
	o.peer, o.Orphan = qp, Orphan{QPN: o.qp.QPN(), Peer: qp.QPN(), Type: kind}
	return o, nil
}

// watch looks whether orphans have received anything.
func (v *visitor) watch() error {
	var list [orphanRecvs]nicless.Completion
	for _, o := range v.orphans {
		n, err := o.cq.Poll(list[:])
		if err != nil {
			return err
		}
		for _, c := range list[:n] {
			if c.Err() == nil {
				return corrupt("QP %#x, whose peer %#x is gone, has received %d bytes of somebody", o.QPN, o.Peer, c.ByteLen)
			}
		}
		if !isPoison(o.mr.Bytes()) {
			return corrupt("QP %#x, whose peer %#x is gone: a receive buffer was written", o.QPN, o.Peer)
		}
	}
	return nil
}
