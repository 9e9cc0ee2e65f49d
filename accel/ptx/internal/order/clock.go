package order

// A clock says up to which operation a lane knows what each writer has stored. Blocks share an entry if
// there are many of them, which lets their lanes know more than they need to. A clock is never changed.
type clock struct {
	of   [writers + 1]uint64
	most uint64 // the largest entry
}

// Writers are blocks, and all that is not the GPU.
const (
	writers = 64
	device  = writers
)

// knows returns an entry. A nil clock knows nothing.
func (c *clock) knows(writer int) uint64 {
	if c == nil {
		return 0
	}
	return c.of[writer]
}

func (c *clock) newest() uint64 {
	if c == nil {
		return 0
	}
	return c.most
}

// join returns a clock that knows what both know.
func (c *clock) join(o *clock) *clock {
	switch {
	case o == nil || c == o:
		return c
	case c == nil:
		return o
	}
	more, less := true, true
	for k := range c.of {
		more = more && c.of[k] >= o.of[k]
		less = less && c.of[k] <= o.of[k]
	}
	switch {
	case more:
		return c
	case less:
		return o
	}
	n := *c
	for k := range n.of {
		n.of[k] = max(n.of[k], o.of[k])
	}
	n.most = max(c.most, o.most)
	return &n
}

// with returns a clock that also knows a writer up to an operation.
func (c *clock) with(writer int, operation uint64) *clock {
	if c.knows(writer) >= operation {
		return c
	}
	var n clock
	if c != nil {
		n = *c
	}
	n.of[writer], n.most = operation, max(n.most, operation)
	return &n
}

// always returns a clock that knows everybody up to an operation.
func always(operation uint64) *clock {
	n := &clock{most: operation}
	for k := range n.of {
		n.of[k] = operation
	}
	return n
}
