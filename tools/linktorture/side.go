//go:build linux && (amd64 || arm64)

package linktorture

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nicless/nicless"
	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/internal/verdict"
)

// The memory of a side. Each operation of a batch has a slot of its own in each area.
const (
	batch    = 8
	slotSize = 16 << 10
	atTarget = 0                 // the peer writes here
	atSource = batch * slotSize  // this side writes from here; the peer reads it
	atResult = 2 * atSource      // results of READs and atomics
	atInbox  = 3 * atSource      // buffers of receives
	atWords  = 4 * atSource      // words for atomics, one for each slot
	sideSize = atWords + batch*8 //
)

// A side is one end of a connection: a client of one engine.
type side struct {
	name    string
	witness *verdict.Witness
	ctx     *nicless.Context
	pd      *nicless.PD
	mr      *nicless.MR
	send    *nicless.CQ
	recv    *nicless.CQ
	qp      *nicless.QP
	want    []byte // what the memory must be
	next    uint64 // ID of the next completion of the send queue
	got     uint64 // ID of the next completion of the receive queue
}

func newSide(name, socket string, witness *verdict.Witness) (s *side, err error) {
	s = &side{name: name, witness: witness}
	for m := witness.Begin(); ; time.Sleep(5 * time.Millisecond) {
		s.ctx, err = nicless.Dial(socket)
		if err == nil {
			break
		}
		if verdict.Now()-m.At > hangTime {
			return nil, verdict.Late(verdict.NoAnswer, witness.Since(m),
				fmt.Sprintf("%s is served within %v", name, hangTime), "%v", err)
		}
	}
	s.pd, err = s.ctx.AllocPD()
	if err != nil {
		return nil, err
	}
	s.mr, err = s.pd.RegisterMemory(sideSize, nicless.FullAccess)
	if err != nil {
		return nil, err
	}
	s.want = make([]byte, sideSize)
	return s, s.open()
}

// open makes a queue pair with empty queues.
func (s *side) open() (err error) {
	s.send, err = s.ctx.CreateCQ(nicless.CQConfig{Entries: 4 * batch})
	if err != nil {
		return err
	}
	s.recv, err = s.ctx.CreateCQ(nicless.CQConfig{Entries: 4 * batch})
	if err != nil {
		return err
	}
	s.next, s.got = 0, 0
	s.qp, err = s.pd.CreateQP(nicless.QPConfig{SendCQ: s.send, RecvCQ: s.recv})
	return err
}

// reopen replaces a queue pair that has failed, and clears the memory.
func (s *side) reopen() error {
	_ = s.qp.Close()
	_ = s.send.Close()
	_ = s.recv.Close()
	clear(s.mr.Bytes())
	clear(s.want)
	return s.open()
}

func (s *side) describe() nicless.Descriptor { return s.qp.Descriptor(s.mr.Remote("all")) }

// take waits for n completions of a queue, which must be those with the IDs from *next on.
func (s *side) take(cq *nicless.CQ, next *uint64, n int) error {
	ctx, cancel := context.WithTimeout(context.Background(), hangTime)
	defer cancel()
	m := s.witness.Begin()
	defer s.witness.Rest()
	var list [batch]nicless.Completion
	for n > 0 {
		got, err := cq.Wait(ctx, list[:min(n, batch)])
		if errors.Is(err, context.DeadlineExceeded) {
			return verdict.Late(verdict.NoAnswer, s.witness.Since(m), fmt.Sprintf(
				"all completions of a batch within %v", hangTime), "%s: %d are missing", s.name, n)
		}
		if err != nil {
			return verdict.New(verdict.Failed, "completions", "%s: %d are missing: %v", s.name, n,
				err).With(s.witness.Since(m))
		}
		for i := range list[:got] {
			c := &list[i]
			// the other engine has not answered any of the retries
			if err := c.Err(); errors.Is(err, cqe.TransportRetry) {
				return verdict.Late(verdict.NoAnswer, s.witness.Since(m),
					"an answer of the other engine to one of the retries", "%s: operation %d has failed: %v",
					s.name, c.ID, err)
			} else if err != nil {
				return verdict.New(verdict.Failed, "success", "%s: operation %d has failed: %v", s.name, c.ID, err).With(s.witness.Since(m))
			}
			if c.ID != *next {
				k := verdict.Repeated
				if c.ID > *next && c.ID-*next <= uint64(n) {
					k = verdict.Lost
				}
				return verdict.New(k, fmt.Sprintf("completion %d", *next), "%s: completion %d", s.name,
					c.ID).With(s.witness.Since(m))
			}
			*next++
		}
		n -= got
	}
	return nil
}

// quiet checks that there are no more completions.
func (s *side) quiet() error {
	var list [1]nicless.Completion
	for _, cq := range []*nicless.CQ{s.send, s.recv} {
		if n, err := cq.Poll(list[:]); n != 0 || err != nil {
			if err != nil {
				return verdict.New(verdict.Failed, "no error of a poll", "%s: %v", s.name, err)
			}
			return verdict.New(verdict.Repeated, "no completion after those of all work", "%s: one more completion (%v)", s.name, &list[0])
		}
	}
	return nil
}

// scanned reports whether a scanner has written into the memory.
func (s *side) scanned() bool { return bytes.Contains(s.mr.Bytes(), []byte(scanMark)) }

// check compares all memory with what it must be.
func (s *side) check() error {
	mem := s.mr.Bytes()
	if bytes.Equal(mem, s.want) {
		return nil
	}
	if s.scanned() {
		return errScanned
	}
	for i := range mem {
		if mem[i] != s.want[i] {
			end := min(i+16, len(mem))
			return verdict.New(verdict.WrongBytes, fmt.Sprintf("%x", s.want[i:end]), "%s: byte %d of the memory is wrong: %x", s.name, i, mem[i:end])
		}
	}
	return nil
}
