package nic

// A Cost is what a server takes of the device's process for a program.
type Cost struct {
	Memory      int // bytes
	Descriptors int // open files
	Connections int // each of which may hold a thread
	Unread      int // descriptors in answers that the program has not read
}

// Plus returns the sum of c and d.
func (c Cost) Plus(d Cost) Cost {
	return Cost{c.Memory + d.Memory, c.Descriptors + d.Descriptors, c.Connections + d.Connections, c.Unread + d.Unread}
}

// Minus returns what is left of c without d.
func (c Cost) Minus(d Cost) Cost {
	return Cost{c.Memory - d.Memory, c.Descriptors - d.Descriptors, c.Connections - d.Connections, c.Unread - d.Unread}
}

// A Speaker counts the lines in the log that are about one of a user's programs. The
// zero value has none. Its fields are the engine's.
type Speaker struct {
	Span  int64 // in which lines were counted last
	Spent int   // lines in that span
}
