//go:build linux && (amd64 || arm64)

package request

import (
	"github.com/nicless/nicless/engine/internal/numbers"
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/shm"
	"github.com/nicless/nicless/trace"
)

func createSRQ(c *Client, m *control.SRQ, _ object.RequestMemory, _ *control.Reply) (control.Message, error) {
	s, err := c.newSRQ(m)
	if err != nil {
		return nil, err
	}
	recordSRQ(c.Device, s, c.Follows, trace.KeyMade)
	return &control.SRQN{SRQN: s.Num}, nil
}

// newSRQ makes an SRQ and adds it to the client and to the device.
func (c *Client) newSRQ(m *control.SRQ) (*object.SRQ, error) {
	switch {
	case m.LogSize > object.MaxLogRQ:
		return nil, control.Errorf(control.CodeInvalid, "SRQ: 2^%d entries; at most 2^%d are possible", m.LogSize, object.MaxLogRQ)
	case m.LogStride < 5 || m.LogStride > object.MaxLogRQStride:
		return nil, control.Errorf(control.CodeInvalid, "SRQ: entries of 2^%d bytes; 2^5 to 2^%d are possible", m.LogStride, object.MaxLogRQStride)
	case m.Ring%64 != 0 || m.DBRec%4 != 0:
		return nil, control.Errorf(control.CodeInvalid, "SRQ: ring at %#x, record at %#x; multiples of 64 and 4 are needed", m.Ring, m.DBRec)
	case m.Limit > 1<<m.LogSize:
		return nil, control.Errorf(control.CodeInvalid, "SRQ: limit %d of 2^%d entries", m.Limit, m.LogSize)
	case m.Cyclic > 1:
		return nil, control.Errorf(control.CodeInvalid, "SRQ: cyclic %d; 0 and 1 are possible", m.Cyclic)
	}
	p, ok := c.PDs[m.PDN]
	if !ok {
		return nil, object.NotFound("PD", m.PDN)
	}
	ringRegion, ring, err := c.At("shared receive queue", m.Ring, 1<<(m.LogSize+m.LogStride))
	if err != nil {
		return nil, err
	}
	recRegion, rec, err := c.At("SRQ doorbell record", m.DBRec, 4)
	if err != nil {
		return nil, err
	}
	s := &object.SRQ{
		Client: c.Client, PD: p, Ring: ring, Mask: 1<<m.LogSize - 1, Stride: uint(m.LogStride),
		Record: shm.BE32At(rec, 0), Regions: [2]*object.Region{ringRegion, recRegion}, Limit: m.Limit,
		Cyclic: m.Cyclic == 1,
	}
	if _, err := c.take("shared receive queues", len(c.SRQs), c.Device.Settings.Limits.QPs,
		s.Cost()); err != nil {
		return nil, err
	}
	s.Num = numbers.Next(c.Device.Numbers.SRQ, c.Device.SRQs)
	c.Device.SRQs[s.Num], c.SRQs[s.Num] = s, s
	object.CountUser(1, ringRegion, recRegion)
	p.Users++
	return s, nil
}

func modifySRQ(c *Client, m *control.SRQLimit, _ object.RequestMemory,
	_ *control.Reply) (control.Message, error) {
	s, ok := c.SRQs[m.SRQN]
	switch {
	case !ok:
		return nil, object.NotFound("SRQ", m.SRQN)
	case m.Limit > uint32(s.Mask)+1:
		return nil, control.Errorf(control.CodeInvalid, "SRQ %#06x: limit %d of %d entries", s.Num, m.Limit, uint32(s.Mask)+1)
	}
	s.Limit = m.Limit
	// Fewer entries may be ready already, and perhaps no transfer will come and check the limit.
	c.Shard.ObserveLimit(s)
	return &control.Empty{}, nil
}

func querySRQ(c *Client, m *control.SRQN, _ object.RequestMemory, _ *control.Reply) (control.Message, error) {
	s, ok := c.SRQs[m.SRQN]
	if !ok {
		return nil, object.NotFound("SRQ", m.SRQN)
	}
	return &control.SRQLimit{SRQN: s.Num, Limit: s.Limit}, nil
}

func destroySRQ(c *Client, m *control.SRQN, _ object.RequestMemory,
	_ *control.Reply) (control.Message, error) {
	s, ok := c.SRQs[m.SRQN]
	switch {
	case !ok:
		return nil, object.NotFound("SRQ", m.SRQN)
	case s.Users > 0:
		return nil, object.Busy("SRQ", m.SRQN, s.Users, "queue pair", "queue pairs")
	}
	delete(c.SRQs, m.SRQN)
	c.removeSRQ(s)
	return &control.Empty{}, nil
}

// removeSRQ removes an SRQ from the device, but not from c.SRQs.
func (c *Client) removeSRQ(s *object.SRQ) {
	sh := c.Loop()
	recordSRQ(c.Device, s, c.Watched, trace.KeyGone)
	delete(sh.SRQs, s.Num)
	s.Client.Refund(s.Cost())
	s.PD.Users--
	s.LeaveDomain()
	dropLate(c.Client, s.Num, srqEvents)
	object.CountUser(-1, s.Regions[:]...)
}
