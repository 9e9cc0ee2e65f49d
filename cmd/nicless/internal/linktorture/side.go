//go:build linux && (amd64 || arm64)

package linktorture

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/nicless/nicless"
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
	name string
	ctx  *nicless.Context
	pd   *nicless.PD
	mr   *nicless.MR
	send *nicless.CQ
	recv *nicless.CQ
	qp   *nicless.QP
	want []byte // what the memory must be
	next uint64 // ID of the next completion of the send queue
	got  uint64 // ID of the next completion of the receive queue
}

func newSide(name, socket string) (s *side, err error) {
	s = &side{name: name}
	for end := time.Now().Add(hangTime); ; time.Sleep(5 * time.Millisecond) {
		if s.ctx, err = nicless.Dial(socket); err == nil {
			break
		}
		if time.Now().After(end) {
			return nil, err
		}
	}
	if s.pd, err = s.ctx.AllocPD(); err != nil {
		return nil, err
	}
	if s.mr, err = s.pd.RegisterMemory(sideSize, nicless.FullAccess); err != nil {
		return nil, err
	}
	s.want = make([]byte, sideSize)
	return s, s.open()
}

// open makes a queue pair with empty queues.
func (s *side) open() (err error) {
	if s.send, err = s.ctx.CreateCQ(nicless.CQConfig{Entries: 4 * batch}); err != nil {
		return err
	}
	if s.recv, err = s.ctx.CreateCQ(nicless.CQConfig{Entries: 4 * batch}); err != nil {
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
	var list [batch]nicless.Completion
	for n > 0 {
		got, err := cq.Wait(ctx, list[:min(n, batch)])
		if err != nil {
			return fmt.Errorf("%s: %d completions are missing after %v: %w", s.name, n, hangTime, err)
		}
		for i := range list[:got] {
			c := &list[i]
			if err := c.Err(); err != nil {
				return fmt.Errorf("%s: operation %d has failed: %w", s.name, c.ID, err)
			}
			if c.ID != *next {
				return fmt.Errorf("%s: completion %d; %d is next: completions are lost, repeated or out of order", s.name, c.ID, *next)
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
			return fmt.Errorf("%s: %d more completions (%v), %v: one is repeated", s.name, n, &list[0], err)
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
			return fmt.Errorf("%s: byte %d of the memory is wrong: %x in place of %x", s.name, i, mem[i:end], s.want[i:end])
		}
	}
	return nil
}
