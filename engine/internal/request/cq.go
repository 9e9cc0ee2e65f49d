//go:build linux && (amd64 || arm64)

package request

import (
	"github.com/nicless/nicless/doorbell"
	"github.com/nicless/nicless/engine/internal/custody"
	"github.com/nicless/nicless/engine/internal/numbers"
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/shm"
	"github.com/nicless/nicless/trace"
)

func createCQ(c *Client, m *control.CQ, _ object.RequestMemory, _ *control.Reply) (control.Message, error) {
	switch {
	case m.LogSize > object.MaxLogCQ:
		return nil, control.Errorf(control.CodeInvalid, "CQ: 2^%d entries; at most 2^%d are possible", m.LogSize, object.MaxLogCQ)
	case m.LogCQE != 6 && m.LogCQE != 7:
		return nil, control.Errorf(control.CodeInvalid, "CQ: entries of 2^%d bytes; 2^6 and 2^7 are possible", m.LogCQE)
	case m.Flags&^(control.CQCollapsed|control.CQIgnoreOverrun|control.CQCompressed) != 0:
		return nil, control.Errorf(control.CodeInvalid, "CQ: unknown flags %#x", m.Flags)
	case m.Flags&control.CQCompressed != 0 && m.Flags&control.CQCollapsed != 0:
		return nil, control.Errorf(control.CodeInvalid, "CQ: flags %#x: a compressed queue cannot be collapsed", m.Flags)
	case m.Flags&control.CQCompressed != 0 && m.MiniFormat != control.MiniHash &&
		m.MiniFormat != control.MiniChecksum && m.MiniFormat != control.MiniChecksumStride:
		return nil, control.Errorf(control.CodeInvalid, "CQ: minis of format %d; %d, %d and %d are possible", m.MiniFormat,
			control.MiniHash, control.MiniChecksum, control.MiniChecksumStride)
	case m.Handle&control.ChannelOverrun != 0:
		return nil, control.Errorf(control.CodeInvalid, "CQ: handle %#x; bit 63 is the device's", m.Handle)
	case m.Buf%64 != 0 || m.DBRec%8 != 0:
		return nil, control.Errorf(control.CodeInvalid, "CQ: buffer at %#x, record at %#x; multiples of 64 and 8 are needed", m.Buf, m.DBRec)
	}
	registers, page, err := c.UARPage("CQ", m.UAR)
	if err != nil {
		return nil, err
	}
	var ch *object.Channel
	if m.Channel != 0 {
		if ch = c.Channels[m.Channel]; ch == nil {
			return nil, object.NotFound("completion channel", m.Channel)
		}
	}
	size := uint64(1) << (m.LogSize + m.LogCQE)
	if m.Flags&control.CQCollapsed != 0 {
		size = 1 << m.LogCQE // nothing is written beyond entry 0
	}
	region, buf, err := c.At("CQ buffer", m.Buf, size)
	if err != nil {
		return nil, err
	}
	records, rec, err := c.At("CQ doorbell record", m.DBRec, 8)
	if err != nil {
		return nil, err
	}
	armWord := shm.BE32At(rec, 4)
	if ch != nil {
		// The first arm of a new queue may store the value 0, so the word has to hold another
		// value before. This store comes before anything is charged, because the store faults
		// if the memory has no page, and the request is then refused.
		armWord.Publish(object.NeverArmed)
	}
	if _, err := c.take("completion queues", len(c.CQs), c.Device.Settings.Limits.CQs,
		object.CQCost); err != nil {
		return nil, err
	}
	q := &object.CQ{
		Client: c.Client, Region: region, Records: records, Handle: m.Handle, Channel: ch,
		Buf: buf, Log: uint(m.LogSize), LogCQE: uint(m.LogCQE),
		Collapsed: m.Flags&control.CQCollapsed != 0, Ignore: m.Flags&control.CQIgnoreOverrun != 0,
		Consumer: shm.BE32At(rec, 0), ArmWord: armWord, ArmSeen: object.NeverArmed,
	}
	q.SetSeen()
	if m.Flags&control.CQCompressed != 0 {
		q.Session = object.NewSession(m.MiniFormat)
	}
	q.SetWatched(c.Follows)
	q.Num = numbers.Next(c.Device.Numbers.CQ, c.Device.CQs)
	c.Device.Watchdog.Owners.Put(uint64(q.Num)|object.TouchedCQ, c.Client.Name)
	c.Device.CQs[q.Num], c.CQs[q.Num] = q, q
	recordCQ(c.Device, q, c.Follows, trace.KeyMade)
	object.CountUser(1, region, records)
	if ch != nil {
		q.ArmWrites = shm.BE64At(registers.Bytes(), page+doorbell.CQArmOffset)
		ch.Users++
		c.Loop().CanArm(q)
	}
	c.Prefault(region, buf)
	c.Prefault(records, rec)
	return &control.CQN{CQN: q.Num}, nil
}

func destroyCQ(c *Client, m *control.CQN, _ object.RequestMemory, _ *control.Reply) (control.Message, error) {
	q, ok := c.CQs[m.CQN]
	switch {
	case !ok:
		return nil, object.NotFound("CQ", m.CQN)
	case q.Users > 0:
		return nil, object.Busy("CQ", m.CQN, q.Users, "queue pair", "queue pairs")
	}
	delete(c.CQs, m.CQN)
	c.removeCQ(q)
	return &control.Empty{}, nil
}

// removeCQ removes a CQ from the device, but not from c.CQs.
func (c *Client) removeCQ(q *object.CQ) {
	sh := c.Loop()
	custody.RecordLastPolled(c.Shard, q, c.Device.WatchesSanitize)
	recordCQ(c.Device, q, c.Watched, trace.KeyGone)
	delete(sh.CQs, q.Num)
	sh.Watchdog.Owners.Drop(uint64(q.Num) | object.TouchedCQ)
	q.Client.Refund(object.CQCost)
	object.CountUser(-1, q.Region, q.Records)
	dropLate(c.Client, q.Num, cqEvents)
	q.Gone = true // a WAIT for this queue is checked again, and then finds no such queue
	if q.Channel != nil {
		q.Channel.Users--
		sh.Disarm(q)
	}
}
