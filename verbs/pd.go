package verbs

import "github.com/nicless/nicless/internal/control"

// A pd is a protection domain.
type pd struct {
	*object
	number uint32
}

func allocPD(c *call, _ []byte) error {
	x := c.x
	if err := x.may(); err != nil {
		return err
	}
	m, _, err := x.ask(control.OpAllocPD, &control.Empty{})
	if err != nil {
		x.mayNot()
		return err
	}
	p := &pd{number: m.(*control.PD).PDN}
	p.object = x.add(kindPD, p, func() error { return x.tell(control.OpDeallocPD, &control.PD{PDN: p.number}) }, nil)
	c.put32(1, p.handle)
	c.put32(uhwOut, p.number)
	return nil
}

func queryPD(c *call) error {
	c.put32(0x1001, objectOf[*pd](c, 0x1000).number)
	return nil
}
