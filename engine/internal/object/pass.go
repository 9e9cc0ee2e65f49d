//go:build linux && (amd64 || arm64)

package object

// A Pass is a round through the queues of all clients of a shard.
type Pass struct {
	Number   uint64
	Finished int    // number of clients of which nothing is left to look at
	Deadline uint64 // first deadline, on the device clock, of the stalled queues and the held events looked at
}

// A ClientPass says what of a client is left to look at in a pass. Each list is looked at from its
// last element to its first. If an element is removed, the last one takes its place; it has
// been looked at already, or is looked at later.
type ClientPass struct {
	Number                uint64 // of the pass; if it is another one, everything is left
	Finished              bool   // nothing is left
	Queues, Stalled, Arms int    // how many are left
}

// Leave notes that c leaves the shard.
func (p *Pass) Leave(c *Client) {
	if c.Pass.Finished && c.Pass.Number == p.Number {
		p.Finished--
	}
}
