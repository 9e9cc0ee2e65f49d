package engine

// A Cost is what a server keeps for a program.
type Cost struct {
	Memory      int // bytes
	Descriptors int
	Connections int // each of which may hold a thread
}

// Plus returns the sum of both.
func (c Cost) Plus(d Cost) Cost {
	return Cost{c.Memory + d.Memory, c.Descriptors + d.Descriptors, c.Connections + d.Connections}
}

// Minus returns what is left of c without d.
func (c Cost) Minus(d Cost) Cost {
	return Cost{c.Memory - d.Memory, c.Descriptors - d.Descriptors, c.Connections - d.Connections}
}

func (c Cost) bill() bill {
	return bill{memory: c.Memory, descriptors: c.Descriptors, connections: c.Connections}
}

// Charge puts a cost on uid's bill, or says that the user cannot have so much.
func (e *Engine) Charge(uid uint32, c Cost) error { return e.shares.take(uid, c.bill()) }

// Refund takes back what Charge has counted.
func (e *Engine) Refund(uid uint32, c Cost) { e.shares.give(uid, c.bill()) }
