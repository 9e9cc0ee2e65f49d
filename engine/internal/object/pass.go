//go:build linux && (amd64 || arm64)

package object

// A Pass is a round through the queues of all clients of a shard.
type Pass struct {
	Number   uint64
	Finished int    // number of clients that are looked at completely
	Deadline uint64 // first deadline of the stalled queues and the held events looked at
}

// Leave notes that c leaves the shard.
func (p *Pass) Leave(c *Client) {
	if c.Pass.Finished && c.Pass.Number == p.Number {
		p.Finished--
	}
}
