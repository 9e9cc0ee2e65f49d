//go:build linux && (amd64 || arm64)

package request

import (
	"github.com/nicless/nicless/engine/internal/mailbox"
	"github.com/nicless/nicless/engine/internal/numbers"
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/shm"
	"github.com/nicless/nicless/trace"
)

func openXRCD(c *Client, _ *control.Empty, _ object.RequestMemory,
	_ *control.Reply) (control.Message, error) {
	c.Device.LastXRCD++
	d := &object.XRCD{Num: c.Device.LastXRCD, Members: make(map[*object.Client]*object.Membership)}
	if err := c.joinXRCD(d); err != nil {
		return nil, err
	}
	c.Device.XRCDs[d.Num] = d
	return &control.XRCD{XRCDN: d.Num}, nil
}

// JoinXRCD opens domain n, which another client has opened.
func (c *Client) JoinXRCD(n uint32) (err error) {
	c.Mu.Lock()
	defer c.Mu.Unlock()
	if c.Closed {
		return object.ErrClosed
	}
	c.do(mailbox.NoWork, "join_xrcd", func() {
		d := c.Device.XRCDs[n]
		if d == nil {
			err = control.Errorf(control.CodeNotFound, "XRC domain %d: there is none with that number", n)
			return
		}
		err = c.joinXRCD(d)
	})
	return err
}

// joinXRCD makes the client a member of d, or counts once more that it has opened d. All members of a domain
// are in one shard.
func (c *Client) joinXRCD(d *object.XRCD) error {
	if _, err := c.take("XRC domains", len(c.XRCDs), c.Device.Settings.Limits.PDs,
		object.PDCost); err != nil {
		return err
	}
	if d.Members[c.Client] == nil {
		for other := range d.Members {
			if c.Linked > 0 {
				c.Device.Follow(other, c.Shard) // c has to stay in the shard that serves the ports
			} else {
				c.Device.Follow(c.Client, other.Shard)
			}
			break
		}
		d.Members[c.Client] = new(object.Membership)
		c.XRCDs[d.Num] = d
	}
	d.Members[c.Client].Opened++
	return nil
}

func closeXRCD(c *Client, m *control.XRCD, _ object.RequestMemory,
	_ *control.Reply) (control.Message, error) {
	d := c.XRCDs[m.XRCDN]
	if d == nil {
		return nil, object.NotFound("XRC domain", m.XRCDN)
	}
	if mine := d.Members[c.Client]; mine.Opened == 1 && mine.Used > 0 {
		return nil, object.Busy("XRC domain", m.XRCDN, mine.Used, "queue", "queues")
	}
	c.leaveXRCD(d)
	return &control.Empty{}, nil
}

// leaveXRCD undoes one joinXRCD.
func (c *Client) leaveXRCD(d *object.XRCD) {
	c.Refund(object.PDCost)
	d.Members[c.Client].Opened--
	if d.Members[c.Client].Opened > 0 {
		return
	}
	delete(d.Members, c.Client)
	delete(c.XRCDs, d.Num)
	if len(d.Members) == 0 {
		delete(c.Device.XRCDs, d.Num)
	}
}

func createXSRQ(c *Client, m *control.XSRQ, _ object.RequestMemory,
	_ *control.Reply) (control.Message, error) {
	d, q := c.XRCDs[m.XRCDN], c.CQs[m.CQN]
	switch {
	case d == nil:
		return nil, object.NotFound("XRC domain", m.XRCDN)
	case q == nil:
		return nil, object.NotFound("CQ", m.CQN)
	case q.Dead:
		return nil, control.Errorf(control.CodeState, "SRQ: CQ %#06x has overrun; nothing is written to it any more", q.Num)
	case m.UserIndex > 0xffffff:
		return nil, control.Errorf(control.CodeInvalid, "SRQ: user index %#x; 24 bits are possible", m.UserIndex)
	}
	s, err := c.newSRQ(&m.SRQ)
	if err != nil {
		return nil, err
	}
	s.XRCD, s.CQ, s.UIDX = d, q, m.UserIndex
	q.Users++
	d.Members[c.Client].Used++
	recordSRQ(c.Device, s, c.Follows, trace.KeyMade)
	return &control.SRQN{SRQN: s.Num}, nil
}

// createTarget makes a target: a queue pair that has only what the device needs of every queue pair, which is
// empty queues in the device's own memory. No key has its PD, and its CQs get no completions.
func createTarget(c *Client, m *control.XRCD, _ object.RequestMemory,
	_ *control.Reply) (control.Message, error) {
	d := c.XRCDs[m.XRCDN]
	if d == nil {
		return nil, object.NotFound("XRC domain", m.XRCDN)
	}
	if _, err := c.take("queue pairs", len(c.QPs), c.Device.Settings.Limits.QPs,
		object.QPCost); err != nil {
		return nil, err
	}
	rec, none := make([]byte, 8), new(object.CQ)
	q := &object.QP{Client: c.Client, PD: new(object.PD), Transport: control.QPTypeXRC,
		XRC: &object.Extended{Domain: d},
		SQ:  object.SendQueue{Blocks: object.OneBlock(), CQ: none, Record: shm.BE32At(rec, 4)},
		RQ:  object.ReceiveQueue{CQ: none, Record: shm.BE32At(rec, 0)},
	}
	q.Num = newQPN(c.Device)
	c.addQP(q)
	d.Members[c.Client].Used++
	return &control.QPN{QPN: q.Num}, nil
}

// openTarget lets c use a target of another client. Each client that has a target is charged
// for the target, because each may be the last client that has it.
func openTarget(c *Client, m *control.Target, _ object.RequestMemory,
	_ *control.Reply) (control.Message, error) {
	d, q := c.XRCDs[m.XRCDN], c.Device.QPs[m.QPN]
	switch {
	case d == nil:
		return nil, object.NotFound("XRC domain", m.XRCDN)
	case q == nil || q.Target() != d:
		return nil, control.Errorf(control.CodeNotFound, "QP %#06x: XRC domain %d has no target with that number", m.QPN, m.XRCDN)
	case c.QPs[m.QPN] != nil:
		return nil, control.Errorf(control.CodeBusy, "QP %#06x: this client has it already", m.QPN)
	}
	if _, err := c.take("queue pairs", len(c.QPs), c.Device.Settings.Limits.QPs,
		object.QPCost); err != nil {
		return nil, err
	}
	c.QPs[q.Num] = q
	q.XRC.Others = append(q.XRC.Others, c.Client)
	d.Members[c.Client].Used++
	return &control.Empty{}, nil
}

// newQPN returns the number of the next queue pair.
func newQPN(d Device) uint32 { return numbers.Next(d.Numbers.QP, d.QPs) }

// addQP adds a new queue pair, which has its number, to its client and to the device.
func (c *Client) addQP(q *object.QP) {
	c.Device.Serial++
	q.Serial = c.Device.Serial
	q.Attr.QPN = q.Num
	c.Device.Watchdog.Owners.Put(uint64(q.Num), c.Client.Name)
	c.Device.QPs[q.Num], c.QPs[q.Num] = q, q
	c.Device.faultQueue(q, c.Device.Faults)
	if c.Follows != 0 {
		q.Watch(c.Follows)
		c.Device.recordQueue(q, c.Follows)
	}
}
