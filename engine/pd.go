//go:build linux && (amd64 || arm64)

package engine

import "github.com/nicless/nicless/internal/control"

// A pd is a protection domain: a key and a QP work together only if both are of the same
// pd.
type pd struct {
	id    uint32
	users int
}

func (c *caller) allocPD(_ *control.Empty, _ requestMemory, _ *control.Reply) (control.Message, error) {
	id, err := c.take("protection domains", len(c.pds), c.e.cfg.limits.PDs, pdCost)
	if err != nil {
		return nil, err
	}
	c.pds[id] = &pd{id: id}
	return &control.PD{PDN: id}, nil
}

func (c *caller) deallocPD(m *control.PD, _ requestMemory, _ *control.Reply) (control.Message, error) {
	p, ok := c.pds[m.PDN]
	switch {
	case !ok:
		return nil, notFound("PD", m.PDN)
	case p.users > 0:
		return nil, busy("PD", m.PDN, p.users, "key or queue", "keys and queues")
	}
	delete(c.pds, m.PDN)
	c.refund(pdCost)
	return &control.Empty{}, nil
}
