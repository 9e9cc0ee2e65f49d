package main

import (
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/nicless/nicless"
	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/fault"
)

// A stage is what an incident plays on: an engine, a client that has set the rules, and a
// client that plays.
type stage struct {
	out      io.Writer
	socket   string
	rules    *fault.Rules     // nil: none
	director *nicless.Context // sets them
	nic      *nicless.Context // plays
	pd       *nicless.PD
	numbers  []uint32 // of queue pairs, as they were made
	end      func()
}

// mostChannels is how many completion channels a client of the engine may have.
const mostChannels = 16

// newStage starts an engine.
func newStage(out io.Writer, r *fault.Rules) (_ *stage, err error) {
	dir, err := os.MkdirTemp("", "nicless-incident-")
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	ready, ended := make(chan struct{}), make(chan error, 1)
	s := &stage{out: out, rules: r, socket: filepath.Join(dir, "engine.sock")}
	cfg := nicless.Config{Limits: nicless.Limits{Channels: mostChannels}}
	go func() { ended <- nicless.Serve(ctx, s.socket, 0o600, cfg, func() { close(ready) }) }()
	s.end = func() {
		stop()
		<-ended
		_ = os.RemoveAll(dir)
	}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	select {
	case <-ready:
	case err := <-ended:
		ended <- err
		return nil, err
	}
	s.director, err = nicless.Dial(s.socket)
	if err != nil {
		return nil, err
	}
	s.nic, err = nicless.Dial(s.socket)
	if err != nil {
		return nil, err
	}
	s.nic.OnExplanation(func(nicless.Explanation) {}) // completions have them too
	s.pd, err = s.nic.AllocPD()
	return s, err
}

// obey sets the rules, if there are any.
func (s *stage) obey() error {
	if s.rules == nil {
		return nil
	}
	_, err := s.director.Faults(*s.rules)
	return err
}

func (s *stage) close() {
	for _, c := range []*nicless.Context{s.nic, s.director} {
		if c != nil {
			_ = c.Close()
		}
	}
	s.end()
}

func (s *stage) print(format string, args ...any) { fmt.Fprintf(s.out, format+"\n", args...) }

// A side is a queue pair with a completion queue and memory.
type side struct {
	s    *stage
	qp   *nicless.QP
	cq   *nicless.CQ
	mr   *nicless.MR
	seen uint32 // completions that poll has taken
}

func (s *stage) side(q nicless.QPConfig, c nicless.CQConfig) (*side, error) {
	cq, err := s.nic.CreateCQ(c)
	if err != nil {
		return nil, err
	}
	mr, err := s.pd.RegisterMemory(1<<16, nicless.FullAccess)
	if err != nil {
		return nil, err
	}
	q.SendCQ = cq
	qp, err := s.pd.CreateQP(q)
	if err != nil {
		return nil, err
	}
	s.numbers = append(s.numbers, qp.QPN())
	return &side{s: s, qp: qp, cq: cq, mr: mr}, nil
}

// pair returns two sides that are connected with each other.
func (s *stage) pair(o nicless.Connection) (a, b *side, err error) {
	a, err = s.side(nicless.QPConfig{}, nicless.CQConfig{})
	if err != nil {
		return nil, nil, err
	}
	b, err = s.side(nicless.QPConfig{}, nicless.CQConfig{})
	if err != nil {
		return nil, nil, err
	}
	return a, b, nicless.Pair(a.qp, b.qp, o)
}

// post posts an operation on n bytes at offset off of the memory of both sides.
func (a *side) post(id uint64, op nicless.Op, b *side, off, n int) error {
	wr := &nicless.SendWR{ID: id, Op: op, Flags: nicless.Signaled, SGE: []nicless.SGE{a.mr.SGE(off, n)}}
	if b != nil {
		wr.RemoteAddr, wr.RKey = b.mr.Addr()+uint64(off), b.mr.RKey()
	}
	return a.qp.PostSend(wr)
}

// patience is how long a program of an incident waits before it says that it waits for ever.
// It is for completions that do not come; others take microseconds.
const patience = 200 * time.Millisecond

// poll takes one completion and prints its bytes. It reports whether one came within the time.
func (a *side) poll(wait time.Duration) (c nicless.Completion, ok bool, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	var one [1]nicless.Completion
	n, err := a.cq.Wait(ctx, one[:])
	if n == 0 && ctx.Err() != nil {
		return c, false, nil
	}
	if err != nil {
		return c, false, err
	}
	a.s.dump(a.cq, a.seen)
	a.seen++
	return one[0], true, nil
}

// dump prints the bytes of the completion with this index. Dots stand for
// the time stamp and for numbers of queue pairs, because these differ from run to run. The
// place of a queue pair in the order of their making is printed after the dots.
func (s *stage) dump(cq *nicless.CQ, index uint32) {
	ring := cq.Ring()
	b := ring[index%uint32(len(ring)/cqe.Size)*cqe.Size:][:cqe.Size]
	text := []byte(hex.EncodeToString(b))
	if !cqe.OpOwn(b[63]).Opcode().IsError() { // an error has its syndrome there
		copy(text[2*48:], "................")
	}
	for _, at := range []int{25, 57} { // the queue pair that has sent, and that of the completion
		qpn := uint32(b[at])<<16 | uint32(b[at+1])<<8 | uint32(b[at+2])
		if n := slices.Index(s.numbers, qpn); n >= 0 {
			copy(text[2*at:], fmt.Sprintf("....%02x", n+1))
		}
	}
	for row := 0; row < cqe.Size; row += 16 {
		t := text[2*row:]
		s.print("  %02x: %s %s %s %s", row, t[:8], t[8:16], t[16:24], t[24:32])
	}
}
