//go:build linux && (amd64 || arm64)

// Package traffic counts what queue pairs send and receive, for the counters of a port (nic.PortCounts).
package traffic

import (
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/wqe"
)

// Messages between two queue pairs of the device are counted for both clients, with the packets into which
// the path MTU would cut them. The fast path counts once for each burst: Burst is small enough to become part
// of it, and has no branch.

// Burst counts WQEs of the fast path with the opcode op, done in number and with so many bytes together, of
// q, which has sent them to p. Each counts as one packet, or one answer.
func Burst(q, p *object.QP, op wqe.Opcode, done, bytes uint64) {
	c := q.Client
	c.Count[control.CounterWQEs] += done
	c.Count[control.CounterBytes] += bytes // rule: bytes are counted
	q.SQ.WQEs += done
	q.SQ.Moved += bytes
	c.Traffic.Out[op&nic.OpcodeMask].Add(done, bytes)
	p.Client.Traffic.In[op&nic.OpcodeMask].Add(done, bytes)
}

// flows counts messages of one packet each.
func flows(q, p *object.QP, op wqe.Opcode, k, bytes uint64) {
	q.Client.Traffic.Out[op&nic.OpcodeMask].Add(k, bytes)
	p.Client.Traffic.In[op&nic.OpcodeMask].Add(k, bytes)
}

// Messages counts k messages of n bytes each, which q has sent to p by WQEs with the opcode op.
func Messages(q, p *object.QP, op wqe.Opcode, k, n uint64) {
	flows(q, p, op, k, k*n)
	Long(q, p, op, k, n)
}

// Long counts the packets of k messages of n bytes each beyond the first of each.
func Long(q, p *object.QP, op wqe.Opcode, k, n uint64) {
	more := k * (segments(n, MTU(q)) - 1)
	from, to := &q.Client.Traffic.N, &p.Client.Traffic.N
	if op == wqe.OpRDMARead {
		from, to = to, from
	}
	from[nic.SentPackets] += more
	to[nic.GotPackets] += more
}

// Odd is called for WQEs of a burst that do not have the opcode expect, or can be longer than a packet: k
// WQEs of n bytes with the opcode op. It counts those with another opcode, and adds them to apart.
func Odd(q, p *object.QP, apart *nic.Flows, expect, op wqe.Opcode, k, n uint64) {
	if op == expect {
		Long(q, p, op, k, n)
		return
	}
	Messages(q, p, op, k, n)
	apart.Add(k, k*n)
}

// Except takes back that Burst has counted the WQEs of apart with the others.
func Except(q, p *object.QP, op wqe.Opcode, apart nic.Flows) {
	flows(q, p, op, -apart.Messages, -apart.Bytes)
}

// segments returns how many packets a message of n bytes has. mtu is a power of 2.
func segments(n, mtu uint64) uint64 { return max((n+mtu-1)/mtu, 1) }

// Message counts the message of a WQE that ends, if it has one. A message to a multicast group is sent
// once, and received by each member that takes it.
func Message(q *object.QP, j *object.Job) {
	n, op := j.Request.Length, j.Head.Opcode()
	switch {
	case j.Cast != 0 && j.Lost:
		// This member misses it.
	case j.Cast != 0:
		to := &j.Peer.Client.Traffic.N
		to.Got(int(n))
		to[nic.GotMulticast]++
	case j.Lost:
		countLost(q, n)
	case j.Peer == nil:
		// The work request sends nothing.
	case q.HasPeer(), q.Transport == control.QPTypeDCI:
		Messages(q, j.Peer, op, 1, n)
	default:
		flows(q, j.Peer, op, 1, n) // a datagram is one packet
	}
}

// countLost counts a message of n bytes that no queue pair of the device takes, or that is for a group.
func countLost(q *object.QP, n uint64) {
	t := &q.Client.Traffic.N
	if q.Transport != control.QPTypeUD {
		t.Sent(int(segments(n, MTU(q))), int(n))
		return
	}
	t.Sent(1, int(n))
	if at := &q.Datagrams.Cast; at.WQE == q.SQ.Done+1 {
		t[nic.SentMulticast]++
	}
}

// MTU returns the most bytes of payload in a packet of q: 256 to 4096, a power of 2.
func MTU(q *object.QP) uint64 { return 128 << min(max(q.Attr.PathMTU, 1), 5) }

// Sent counts a packet that q sends over a link; n is the length of its payload.
func Sent(q *object.QP, n int) { q.Client.Traffic.N.Sent(1, n) }

// Wrote counts a packet with a whole WRITE of n bytes, which has come over a link for q.
func Wrote(q *object.QP, n int) { q.Client.Traffic.Written.Add(1, uint64(n)) }

// Fetched counts the request of a READ that has come over a link for q.
func Fetched(q *object.QP) {
	t := &q.Client.Traffic.N
	t[nic.GotPackets]++
	t[nic.GotReads]++
}

// Sum returns the counts of a tally.
func Sum(t *nic.Tally) nic.PortCounts {
	sum := t.N
	received(&sum, wqe.OpRDMAWrite, t.Written)
	for i := range t.Out {
		op := wqe.Opcode(i)
		sent(&sum, op, t.Out[i])
		received(&sum, op, t.In[i])
	}
	return sum
}

// sent adds messages that were sent, and their answers.
func sent(sum *nic.PortCounts, op wqe.Opcode, f nic.Flows) {
	info := op.Info()
	sum[nic.SentPackets] += f.Messages
	switch {
	case info.Atomic():
		sum[nic.GotPackets] += f.Messages
	case info.Reads:
		sum[nic.GotPackets] += f.Messages
		sum[nic.GotBytes] += f.Bytes
	default:
		sum[nic.SentBytes] += f.Bytes
	}
}

// received adds messages that were received, and their answers.
func received(sum *nic.PortCounts, op wqe.Opcode, f nic.Flows) {
	info := op.Info()
	sum[nic.GotPackets] += f.Messages
	switch {
	case info.Atomic():
		sum[nic.SentPackets] += f.Messages
		sum[nic.GotAtomics] += f.Messages
	case info.Reads:
		sum[nic.SentPackets] += f.Messages
		sum[nic.SentBytes] += f.Bytes
		sum[nic.GotReads] += f.Messages
	default:
		sum[nic.GotBytes] += f.Bytes
		if info.Raddr {
			sum[nic.GotWrites] += f.Messages
		}
	}
}
