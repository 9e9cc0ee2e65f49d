//go:build linux && (amd64 || arm64)

package replay

import (
	"fmt"

	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/trace"
)

// A queue is a queue pair.
type queue struct {
	number    uint32
	client    *client
	transport trace.Transport
	state     trace.State // as the trace has it
	was       trace.State // to which a request has brought it last
	info      trace.QueueInfo
	setup     trace.QueueSetup
	ring      []byte // send queue
	receives  []byte // receive queue
	record    []byte // doorbell record
	srq       *srq
	sent      uint16 // index after the last block that was posted
	fetched   uint16 // index after the last block that is in the ring
	received  uint16 // index after the last receive that was posted

	taken  *receive // of the WQE that is executed next
	chunks []chunk  // of the same WQE
	hidden bool     // it is not known where the same WQE reads some of its payload
}

// A receive is one that a message has taken.
type receive struct {
	client *client
	list   []byte // its data segments
	shared *srq   // the queue from which it was taken, if that is shared
	index  uint16 // its entry there
	entry  []byte
}

// A chunk is some of the payload of a WQE.
type chunk struct {
	at, n uint64
	sum   uint32
}

// A cq is a completion queue.
type cq struct {
	number    uint32
	client    *client
	setup     trace.CQSetup
	log       uint // of the entries of the replay's queue
	ring      []byte
	next      uint64 // index of the next entry
	collapsed bool
	shifted   bool // it lacks completions of queue pairs that are left out
	expected  []expectation
	found     [][64]byte
}

// An srq is a shared receive queue.
type srq struct {
	number uint32
	client *client
	setup  trace.SRQSetup
	ring   []byte
	record []byte
	posted uint16            // how many entries were announced
	free   bool              // the last one was not consumed
	was    map[uint16]uint16 // recorded indices of entries
}

// A key is a memory key.
type key struct {
	key    uint32
	client *client
	info   trace.KeyInfo
	setup  trace.KeySetup
}

// owner returns the client of an event, or nil if no event has named it.
func (r *replayer) owner(number uint64) *client {
	if number > 1<<32-1 {
		return nil
	}
	return r.clients[uint32(number)]
}

func (r *replayer) key(e *trace.Event) error {
	info, err := trace.ParseKeyInfo(e.Data)
	setup, ok := trace.ParseKeySetup(e.Data)
	c := r.clients[info.Client]
	if err != nil || !ok || c == nil {
		return err
	}
	index := e.Queue >> 8
	old := r.keys[index]
	if old != nil && e.Index == trace.KeyMade {
		return nil // the watch began while it was made
	}
	if old != nil {
		delete(r.keys, index)
		if err := c.call(control.OpDeregMR, &control.Key{Key: old.key}, &control.Empty{}); err != nil {
			return err
		}
	}
	if e.Index == trace.KeyGone {
		return nil
	}
	pd, err := c.pd(setup.PD)
	if err != nil {
		return err
	}
	var ans control.Key
	r.d.Choose(nic.Key, e.Queue)
	switch {
	case setup.Window != 0:
		err = c.call(control.OpAllocMW, &control.MW{PDN: pd, Kind: uint8(setup.Window)}, &ans)
	case setup.Entries != 0:
		err = c.call(control.OpCreateMkey, &control.Mkey{PDN: pd, Entries: setup.Entries}, &ans)
		if list, ok := trace.ParseKeyList(e.Data); ok && err == nil {
			err = c.CompleteList(ans.Key, listKey(list, &info, uint32(e.Count)))
		}
	default:
		err = c.call(control.OpRegMR, &control.MR{PDN: pd, Access: uint32(e.Count), Addr: setup.From,
			Length: info.Length, IOVA: info.Addr}, &ans)
	}
	if err == nil && ans.Key != e.Queue {
		err = fmt.Errorf("the key 0x%x is taken", e.Queue)
	}
	r.keys[index] = &key{ans.Key, c, info, setup}
	return err
}

// listKey returns what a list has that a request has filled. A WQE fills one without pieces.
func listKey(l trace.KeyList, info *trace.KeyInfo, access uint32) nic.ListKey {
	k := nic.ListKey{Invalidate: l.Invalidate, Access: access, Start: info.Addr, Length: info.Length}
	for _, p := range l.Pieces {
		k.Entries = append(k.Entries, nic.ListEntry{Key: p.Key, Addr: p.Addr, N: p.N})
	}
	return k
}

func (r *replayer) completionQueue(e *trace.Event) error {
	s, err := trace.ParseCQSetup(e.Data)
	c := r.owner(e.Value)
	if err != nil || c == nil {
		return err
	}
	q := r.cqs[e.Queue]
	switch {
	case e.Index == trace.KeyGone && q != nil:
		r.endCQ(q)
		return c.call(control.OpDestroyCQ, &control.CQN{CQN: q.number}, &control.Empty{})
	case e.Index == trace.KeyChanged && q != nil:
		return r.resize(q, s)
	case e.Index != trace.KeyMade || q != nil:
		return nil
	}
	q = &cq{number: e.Queue, client: c, setup: s, collapsed: s.Flags&control.CQCollapsed != 0}
	var addr, record uint64
	if addr, err = q.memory(); err != nil {
		return err
	}
	if _, record, err = c.take(8); err != nil {
		return err
	}
	var ans control.CQN
	r.d.Choose(nic.CQ, e.Queue)
	if err := c.call(control.OpCreateCQ, &control.CQ{Buf: addr, DBRec: record, LogSize: uint8(q.log),
		LogCQE: s.LogEntry, Flags: control.CQIgnoreOverrun, UAR: c.uar}, &ans); err != nil {
		return err
	}
	if ans.CQN != e.Queue {
		return errTaken
	}
	r.cqs[e.Queue] = q
	return nil
}

var errTaken = fmt.Errorf("the number is taken")

// collapsedLog is the size of a queue in place of a collapsed one, which would overwrite its entry.
const collapsedLog = 8

// memory makes the entries of q, all of them invalid.
func (q *cq) memory() (addr uint64, err error) {
	if q.setup.LogSize > 24 || q.setup.LogEntry < 6 || q.setup.LogEntry > 7 {
		return 0, fmt.Errorf("2^%d entries of 2^%d bytes; up to 2^24 of 2^6 or 2^7 are possible", q.setup.LogSize, q.setup.LogEntry)
	}
	q.log = uint(q.setup.LogSize)
	if q.collapsed {
		q.log = collapsedLog
	}
	q.ring, addr, err = q.client.take(1 << (q.log + uint(q.setup.LogEntry)))
	for i := range q.ring {
		q.ring[i] = 0xff
	}
	return addr, err
}

func (r *replayer) resize(q *cq, s trace.CQSetup) error {
	old := *q
	q.setup = s
	addr, err := q.memory()
	if err != nil {
		return err
	}
	err = q.client.call(control.OpResizeCQ, &control.ResizeCQ{CQN: q.number, LogSize: uint8(q.log),
		LogCQE: s.LogEntry, Buf: addr}, &control.Empty{})
	ring, log, setup := q.ring, q.log, q.setup
	q.ring, q.log, q.setup = old.ring, old.log, old.setup
	q.poll() // the entry that says so is in the old buffer
	q.ring, q.log, q.setup = ring, log, setup
	return err
}

func (r *replayer) sharedQueue(e *trace.Event) error {
	s, err := trace.ParseSRQSetup(e.Data)
	c := r.owner(e.Value)
	if err != nil || c == nil || s.XRCD != 0 {
		return err
	}
	q := r.srqs[e.Queue]
	switch {
	case e.Index == trace.KeyGone && q != nil:
		delete(r.srqs, e.Queue)
		return c.call(control.OpDestroySRQ, &control.SRQN{SRQN: e.Queue}, &control.Empty{})
	case e.Index != trace.KeyMade || q != nil:
		return nil
	case s.LogSize > 16 || s.LogStride > 11:
		return fmt.Errorf("2^%d receives of 2^%d bytes", s.LogSize, s.LogStride)
	}
	pd, err := c.pd(s.PD)
	if err != nil {
		return err
	}
	q = &srq{number: e.Queue, client: c, setup: s, was: map[uint16]uint16{}}
	var ring, record uint64
	q.ring, ring, err = c.take(1 << (s.LogSize + s.LogStride))
	if err != nil {
		return err
	}
	q.record, record, err = c.take(8)
	if err != nil {
		return err
	}
	cyclic := uint8(0)
	if s.Cyclic {
		cyclic = 1
	}
	var ans control.SRQN
	r.d.Choose(nic.SRQ, e.Queue)
	if err := c.call(control.OpCreateSRQ, &control.SRQ{PDN: pd, Ring: ring, DBRec: record, LogSize: s.LogSize,
		LogStride: s.LogStride, Cyclic: cyclic}, &ans); err != nil {
		return err
	}
	if ans.SRQN != e.Queue {
		return errTaken
	}
	r.srqs[e.Queue] = q
	return nil
}
