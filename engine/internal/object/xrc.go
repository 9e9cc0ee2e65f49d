//go:build linux && (amd64 || arm64)

package object

import (
	"slices"

	"github.com/nicless/nicless/engine/internal/quota"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/shm"
)

// Extended reliable connections (XRC): domains, their shared receive queues (XSRQs), and their
// queue pairs that receive (targets). See Job for what is done with a request.
//
// All clients of a domain are in one shard. So a shard that holds the lock for a target also
// holds the lock for the XSRQs that the target's requests can name.

// Shares reports whether c shares a domain with another client.
func (c *Client) Shares() bool {
	for _, d := range c.XRCDs {
		if len(d.Members) > 1 {
			return true
		}
	}
	return false
}

// LeaveDomain is called when s is removed.
func (s *SRQ) LeaveDomain() {
	if s.XRCD != nil {
		s.Gone = true
		s.CQ.Users--
		s.XRCD.Members[s.Client].Used--
	}
}

// OneBlock is the ring of a queue pair that sends nothing.
func OneBlock() shm.Ring { return shm.RingOf(new(shm.Block)[:]) }

// LeaveTarget ends c's use of a queue pair. It returns false if no other client uses the queue
// pair, which then has to be removed. If c is the client to which the queue pair belongs, the
// queue pair belongs to one of the others from now on.
func (sh *Shard) LeaveTarget(q *QP, c *Client) bool {
	if q.Target() == nil {
		return false
	}
	q.Target().Members[c].Used--
	if len(q.XRC.Others) == 0 {
		return false
	}
	c.Refund(QPCost)
	if i := slices.Index(q.XRC.Others, c); i >= 0 {
		q.XRC.Others = slices.Delete(q.XRC.Others, i, i+1)
		return true
	}
	running := q.Client.Shard.IsRunning(q)
	sh.RemoveRunning(q)
	if q.Wire != nil {
		q.Client.Linked--
		q.XRC.Others[0].Linked++
		c.Refund(WireCost)
		// Memory that is in use already.
		_ = sh.Ledger.Incur(q.XRC.Others[0].UID, quota.Charge{quota.Memory: WireCost})
	}
	q.Client, q.XRC.Others = q.XRC.Others[0], q.XRC.Others[1:]
	if q.Wire != nil {
		sh.ChargeEarly(q, q.Wire)
	}
	q.setWatched(q.Client.Follows) // another user may watch the new owner
	sh.Watchdog.Owners.Put(uint64(q.Num), q.Client.Name)
	if running {
		sh.AddRunning(q)
		sh.MarkWarm(q)
	}
	return true
}

// Event sends an event about q to all clients that have q.
func (q *QP) Event(kind control.EventKind) {
	q.Client.Event(kind, q.Num)
	if q.XRC == nil {
		return
	}
	for _, c := range q.XRC.Others {
		c.Event(kind, q.Num)
	}
}

// Receives returns how many receives are posted for the message of j.
func (j *Job) Receives() uint16 {
	if j.SRQ != nil {
		return j.SRQ.Ready()
	}
	return j.Peer.Posted()
}

// Owner returns the client whose memory and receives the request of j is for.
func (j *Job) Owner() *Client {
	if j.Peer.Target() != nil && j.SRQ != nil {
		return j.SRQ.Client
	}
	return j.Peer.Client
}

// ServedBy reports whether the key k may give access to the request of j, which is for a target.
// A window of type 2 is bound to a queue pair that can post, so it never serves a target.
func (j *Job) ServedBy(k *Mkey) bool {
	return j.Peer.Target() != nil && k.Domain() == j.SRQ.PD && (k.Window == nil || k.Window.Kind == 1)
}

// Domain returns the protection domain to which the keys must belong that the request of j names.
func (j *Job) Domain() *PD {
	if j.Peer.Target() != nil {
		return j.SRQ.PD
	}
	return j.Peer.PD
}

// ReceiveDomain returns the protection domain to which the keys in the receive of j must belong.
func (j *Job) ReceiveDomain() *PD {
	if j.SRQ != nil {
		return j.SRQ.PD
	}
	return j.Peer.PD
}

// Completion returns where the receive of j completes, and the user index there.
func (j *Job) Completion() (c *CQ, uidx uint32) {
	if j.Peer.Target() != nil {
		return j.SRQ.CQ, j.SRQ.UIDX
	}
	return j.Peer.RQ.CQ, j.Peer.UIDX
}
