//go:build linux && (amd64 || arm64)

package survey

import (
	"maps"
	"slices"

	"github.com/nicless/nicless/engine/internal/mailbox"
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/state"
)

// client gives a client and its objects. The lists of objects are copied between two steps, as those of a
// client that is watched are, at once: so other clients wait for the copy of a client with very many objects.
func (s *survey) client(c *object.Client) error {
	var line *state.Line
	var queues []*object.QP
	var cqs []*object.CQ
	var srqs []*object.SRQ
	s.r.DoWith(mailbox.NoWork, func() {
		if _, there := c.Shard.Clients[c]; !there {
			return
		}
		line = &state.Line{Client: describeClient(c)}
		if s.request.Queue != 0 {
			queues, cqs, srqs = s.around(c)
			return
		}
		if s.wants(state.Queues) {
			queues = slices.Collect(maps.Values(c.QPs))
		}
		if s.wants(state.CQs) {
			cqs = slices.Collect(maps.Values(c.CQs))
		}
		if s.wants(state.SRQs) {
			srqs = slices.Collect(maps.Values(c.SRQs))
		}
	})
	if line == nil {
		return nil // it has gone
	}
	if s.wants(state.Clients) || s.request.Queue != 0 {
		if err := s.give(line); err != nil {
			return err
		}
	}
	slices.SortFunc(queues, func(a, b *object.QP) int { return int(a.Num) - int(b.Num) })
	slices.SortFunc(cqs, func(a, b *object.CQ) int { return int(a.Num) - int(b.Num) })
	slices.SortFunc(srqs, func(a, b *object.SRQ) int { return int(a.Num) - int(b.Num) })
	own := func(q *object.QP) *state.Line {
		if q.Client != c { // a target of XRC that c has opened
			return nil
		}
		return s.queue(q)
	}
	if err := inPortions(s, queues, own); err != nil {
		return err
	}
	if err := inPortions(s, cqs, s.cq); err != nil {
		return err
	}
	return inPortions(s, srqs, s.srq)
}

// around returns the queue pair that is asked for, if c has it, and what belongs to it.
func (s *survey) around(c *object.Client) (queues []*object.QP, cqs []*object.CQ, srqs []*object.SRQ) {
	q := s.r.QPs[s.request.Queue]
	if q == nil || q.Client != c {
		return nil, nil, nil
	}
	queues = []*object.QP{q}
	for _, cq := range []*object.CQ{q.SQ.CQ, q.RQ.CQ} {
		if cq != nil && !slices.Contains(cqs, cq) {
			cqs = append(cqs, cq)
		}
	}
	if q.RQ.SRQ != nil {
		srqs = []*object.SRQ{q.RQ.SRQ}
	}
	return queues, cqs, srqs
}

func describeClient(c *object.Client) *state.Client {
	return &state.Client{
		Number: c.Number, Time: now(), PID: c.Hosted.PID, UID: c.UID, Program: c.Program, Name: c.Name,
		Port: int(c.Hosted.Port), Thread: c.Shard.Number,
		Queues: len(c.QPs), CQs: len(c.CQs), SRQs: len(c.SRQs), MRs: len(c.MRs), PDs: len(c.PDs),
		Memory: c.Bytes, Linked: c.Linked, Waiting: len(c.Sched.Stalled),
		Counts: countsOf(&c.Count), Errors: c.Recent.All(),
	}
}
