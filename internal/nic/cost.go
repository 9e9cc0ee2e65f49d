package nic

// A Cost is how much of the resources of the device's process a server takes for a program.
type Cost struct {
	Memory      int // bytes
	Descriptors int // open files
	Connections int // connections, each of which may block a thread
	Unread      int // descriptors in answers that the program has not read
	Paths       int // paths to ports elsewhere that are held
}

// Plus returns the sum of c and d.
func (c Cost) Plus(d Cost) Cost {
	return Cost{c.Memory + d.Memory, c.Descriptors + d.Descriptors, c.Connections + d.Connections,
		c.Unread + d.Unread, c.Paths + d.Paths}
}

// Minus returns c less d.
func (c Cost) Minus(d Cost) Cost {
	return Cost{c.Memory - d.Memory, c.Descriptors - d.Descriptors, c.Connections - d.Connections,
		c.Unread - d.Unread, c.Paths - d.Paths}
}

// A Speaker counts the lines in the log that are about one of a user's programs. The
// zero value has counted none. Only the engine uses the fields.
type Speaker struct {
	Span  int64 // number of the span of time that Spent is about
	Spent int   // number of lines in that span of time
}
