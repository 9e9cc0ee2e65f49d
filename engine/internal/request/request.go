//go:build linux && (amd64 || arm64)

package request

import (
	"sync/atomic"

	"github.com/nicless/nicless/engine/internal/loop"
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/engine/internal/quota"
)

// A Client serves the requests of one client. The embedded object.Client is the state that the device's
// threads also use.
type Client struct {
	*object.Client
	Device Device // hides the field Device of object.Client, which is the state inside this Device
	faults clientFaults
	born   string // when the client's process began, as beginOf says it

	calls  []callCounter // for rules that can refuse requests; see refuse.go. Mu guards it
	spared atomic.Uint64 // Serial of the last Refusals of which none is for this client
}

// Loop returns the loop of the client's shard.
func (c *Client) Loop() *loop.Loop { return c.Device.Loops[c.Shard.Number] }

// Device implements nic.Device and nic.Probe, through which servers in the engine's process use the engine.
// Connections and protocols belong to the servers. The resources that servers hold for programs are charged
// here, in the ledger in which the device's own objects are charged. So a user has one share, whichever
// protocols its programs use.
type Device struct{ *loop.Runner }

// take returns an id for a new object of a kind. It returns an error if the client has
// reached its limit, or if the client's user has reached its share of memory. When the
// object is destroyed, the caller refunds the cost.
func (c *Client) take(kind string, have, limit, cost int) (uint32, error) {
	if have >= limit {
		return 0, object.TooMany(kind, limit)
	}
	if err := c.Device.Ledger.Take(c.UID, quota.Charge{quota.Memory: cost}); err != nil {
		return 0, err
	}
	for c.NextID == 0 || c.names(c.NextID) { // can be true only after ids have wrapped around
		c.NextID++
	}
	c.NextID++
	return c.NextID - 1, nil
}

// names reports whether an object of this client has the id.
func (c *Client) names(id uint32) bool {
	return c.Regions[id] != nil || c.Unplaced[id] != nil || c.PDs[id] != nil || c.Channels[id] != nil
}
