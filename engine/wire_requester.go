//go:build linux && (amd64 || arm64)

package engine

import (
	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/engine/internal/codes"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/packet"
	"github.com/nicless/nicless/wqe"
)

// A message is a WQE that is sent in packets, until it is acknowledged.
type message struct {
	head     head
	index    uint64 // count of blocks of the send queue before its WQE
	total    uint64 // bytes
	psn      uint32 // PSN of the first packet
	psns     uint32 // how many PSNs it takes: one for each packet, or for each packet of its answer
	answered uint32 // READ or atomic: packets of the answer that have come
	part     uint32 // READ: packets of the answer that one request asks for
	blocks   uint8  // of the WQE
	answers  bool   // a READ or an atomic
}

// end returns the PSN after those of m.
func (m *message) end() uint32 { return packet.AddPSN(m.psn, m.psns) }

// An outbound is the sending half of a queue pair on a wire. Messages are numbered; those from
// first to last, without last, are on the way. The requester sends packet number sent of message
// number at next. If that is not a packet that was never sent, it sends packets again.
type outbound struct {
	messages    []message // by number, modulo their count, a power of two
	first, last uint32
	at, sent    uint32
	psn         uint32 // PSN after the last message's
	una         uint32 // oldest PSN that is not acknowledged
	most        uint32 // PSN after the highest one that was sent
	job         *job   // of message at, if some of its packets were sent
	reading     uint32 // READs and atomics on the way
	answerJob   *job   // of the oldest of them, if it is a READ of which some packets have come
	window      uint32 // packets that may be on the way
	full        uint32 // the window that the port allows
	calm        uint32 // PSN up to which packets must be acknowledged before another CNP counts
	grown       uint32 // packets acknowledged since the window grew
	retries     uint8  // retries without progress
	rnrRetries  uint8
	paused      bool // waits for the RNR timer
	rewound     bool // goes back to una already, because of a gap
	draining    bool // in SQD, and the event that says so is still to come
}

// message returns the message with a number.
func (r *outbound) message(n uint32) *message { return &r.messages[n&uint32(len(r.messages)-1)] }
func (r *outbound) oldest() *message          { return r.message(r.first) }

// next returns the PSN of the packet that is sent next.
func (r *outbound) next() uint32 {
	if r.at == r.last {
		return r.psn
	}
	return packet.AddPSN(r.message(r.at).psn, r.sent)
}

// canSend reports whether there are packets that may be sent.
func (w *wire) canSend() bool {
	return w.out.at != w.out.last && !w.out.paused && !w.out.closed()
}

// canFetch reports whether another WQE may become a message.
func (w *wire) canFetch() bool {
	r := &w.out
	return !r.paused && r.last-r.first < uint32(len(r.messages)) && !r.closed()
}

// closed reports whether the window is closed.
func (r *outbound) closed() bool {
	return packet.DiffPSN(r.next(), r.una) >= int32(r.window)
}

// dropJob forgets the job of the message that is being sent.
func (sh *mover) dropJob(r *outbound) {
	if r.job != nil && r.job != sh.scratch.job {
		sh.dismissJob(r.job)
	}
	r.job = nil
}

func (sh *mover) dropAnswerJob(r *outbound) {
	if r.answerJob != nil {
		sh.dismissJob(r.answerJob)
		r.answerJob = nil
	}
}

// retainJob keeps the scratch job beyond this visit, and takes another as the scratch job.
func (sh *mover) retainJob() *job {
	j := sh.scratch.job
	j.settle()
	j.epoch = sh.epoch.Load()
	if n := len(sh.scratch.spare); n > 0 {
		sh.scratch.job, sh.scratch.spare = sh.scratch.spare[n-1], sh.scratch.spare[:n-1]
	} else {
		sh.scratch.job = new(job)
	}
	return j
}

// dismissJob ends a job that retainJob has kept.
func (sh *mover) dismissJob(j *job) {
	sh.putBack(j)
	sh.scratch.spare = append(sh.scratch.spare, j)
}

// current reports whether the keys of a job that was kept are still the same.
func (sh *mover) current(j *job) bool {
	now := sh.epoch.Load()
	if j.epoch != now && sh.changedSince(j) {
		return false
	}
	j.epoch = now
	return true
}

// A sender turns their WQEs into packets.
type sender struct{ receiver }

// sendRequests sends packets of q within the budget of a visit, of which bytes are left, and returns
// how many WQEs or packets it has advanced.
func (sh *sender) sendRequests(q *qp, bytes int) (done int) {
	w := q.wire
	sh.sched.spent = sh.cfg.slice - bytes
	if q.stall.kind != noStall {
		return 0
	}
	sh.sched.effort = 0
	for done < sh.cfg.burst && bytes > 0 {
		if q.job != nil { // a local operation that takes several visits
			if !sh.continueLocal(q, &bytes) {
				break
			}
			done++
			continue
		}
		if w.out.at != w.out.last {
			if !w.canSend() {
				break
			}
			n, all := sh.sendMessage(q, &bytes)
			done += n
			bytes -= sh.takeEffort()
			if !all {
				break
			}
			continue
		}
		if q.attr.State != control.StateRTS {
			break
		}
		n := sh.pending(q)
		if n == 0 || !w.canFetch() {
			break
		}
		if done == 0 {
			sh.started(q)
		}
		if k := sh.fastRequests(q, min(int(n), sh.cfg.burst-done), &bytes); k > 0 {
			done += k
			continue
		}
		v := sh.fetch(q, n, &bytes)
		bytes -= sh.takeEffort()
		if v != accepted {
			if v == failed {
				done++
			}
			break
		}
		done++
	}
	sh.sched.spent = sh.cfg.slice - bytes
	if q.wire != nil && q.attr.State == control.StateSQD && w.out.first == w.out.last && q.job == nil && w.out.draining {
		w.out.draining = false
		sh.drained(q)
	}
	return done
}

// fetch makes a message of the next WQE and sends as much of it as may be sent. An operation
// without packets is executed when all earlier messages have completed. n is the number of
// blocks that are announced.
func (sh *sender) fetch(q *qp, n uint16, bytes *int) verdict {
	r := &q.wire.out
	idle := r.first == r.last
	sh.snapshot(q)
	h := parseHead((*[wqe.CtrlSize]byte)(sh.scratch.wqe[:]))
	op := h.opcode()
	info := op.Info()
	peer := info.Remote != 0 || info.Receive()
	switch {
	case !idle && (!peer || !r.mayFollow(h, info, q.attr.MaxRdAtomic)):
		return waiting
	case info.Atomic() && op != wqe.OpAtomicCS && op != wqe.OpAtomicFA:
		if !idle {
			return waiting
		}
		return sh.noSuchPacket(q, h)
	}
	// A WQE that has a mistake fails when all earlier ones have completed. Until then it is
	// not explained.
	sh.trial = !idle
	v := sh.judge(q, n)
	sh.trial = false
	if v != accepted {
		return v
	}
	j := sh.scratch.job
	if !peer {
		return sh.executeLocal(q, j, bytes)
	}
	psns := uint32(1)
	if !info.Atomic() && j.total > uint64(q.wire.mtu) {
		psns = uint32((j.total + uint64(q.wire.mtu) - 1) / uint64(q.wire.mtu))
	}
	m := r.push(q, j.head, j.total, psns, info.Reads || info.Atomic())
	q.sq.done += uint64(j.blocks)
	r.job = j
	_, all := sh.sendPackets(q, m, bytes)
	if !all {
		sh.keepScratch(r, m)
	}
	return accepted
}

// push makes a message of q's next WQE. It stores field by field, for the reason given at head.
func (r *outbound) push(q *qp, h head, total uint64, psns uint32, answers bool) *message {
	m := r.message(r.last)
	m.head, m.index, m.total, m.psn, m.psns, m.blocks = h, q.sq.done, total, r.psn, psns, uint8(h.blocks())
	m.answers, m.answered, m.part = answers, 0, max(r.window, min(r.full, leastPart))
	r.psn = m.end()
	r.last++
	if answers {
		r.reading++
	}
	return m
}

// keepScratch keeps the job of message at beyond this visit, if it is the scratch job. The operand
// of an atomic is in the snapshot, which the next WQE overwrites, so an atomic is judged again.
func (sh *mover) keepScratch(r *outbound, m *message) {
	switch {
	case r.job != sh.scratch.job:
	case m.head.opcode().Info().Atomic():
		r.job = nil
	default:
		r.job = sh.retainJob()
	}
}

// noSuchPacket fails an atomic that only mlx5 devices know: the InfiniBand transport has no
// packet for it.
func (sh *sender) noSuchPacket(q *qp, h head) verdict {
	j := sh.scratch.job
	j.reset(h)
	sh.explain(q, codes.LinkAtomic, "%v has no packet on a link; only FETCH_ADD and COMPARE_SWAP of 8 bytes reach other devices", h.opcode())
	return sh.fail(q, j, cqe.LocalQPOp)
}

// mayFollow reports whether a WQE may become a message while earlier ones are on the way.
func (r *outbound) mayFollow(h head, info *wqe.Info, most uint8) bool {
	if (info.Reads || info.Atomic()) && r.reading >= uint32(max(most, 1)) {
		return false
	}
	switch h.fence() {
	case wqe.FenceReads, wqe.FenceVerbs:
		return r.reading == 0
	case wqe.FenceStrong:
		return false
	}
	return true
}

// fence returns the fence mode of a WQE.
func (h head) fence() uint8 { return h.second.Flags() & wqe.FenceMask }

// executeLocal executes a WQE that sends nothing.
func (sh *sender) executeLocal(q *qp, j *job, bytes *int) verdict {
	*bytes -= sh.move(q, j, max(*bytes, indivisible))
	if !j.over() {
		sh.keepJob(q)
		return waiting
	}
	if !sh.finish(q, j) {
		return failed
	}
	return accepted
}

// continueLocal continues such a WQE, and reports whether it has ended.
func (sh *sender) continueLocal(q *qp, bytes *int) bool {
	if !sh.resumeJob(q) {
		return false
	}
	j := q.job
	if j.fault != 0 {
		sh.memoryFault(q, j.fault)
		return false
	}
	*bytes -= sh.move(q, j, max(*bytes, indivisible))
	if !j.over() {
		return false
	}
	ok := sh.finish(q, j)
	sh.parkJob(q)
	return ok
}
