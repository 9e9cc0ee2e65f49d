//go:build linux && (amd64 || arm64)

package engine

import (
	"github.com/nicless/nicless/engine/internal/quota"
	"github.com/nicless/nicless/internal/control"
)

// take returns an id for a new object of a kind. It returns an error if the client has
// reached its limit, or if the client's user has reached its share of memory. When the
// object is destroyed, the caller refunds the cost.
func (c *caller) take(kind string, have, limit, cost int) (uint32, error) {
	if have >= limit {
		return 0, tooMany(kind, limit)
	}
	if err := c.e.ledger.Take(c.uid, quota.Charge{quota.Memory: cost}); err != nil {
		return 0, err
	}
	for c.nextID == 0 || c.names(c.nextID) { // can be true only after ids have wrapped around
		c.nextID++
	}
	c.nextID++
	return c.nextID - 1, nil
}

func tooMany(kind string, limit int) error {
	return control.Errorf(control.CodeLimit, "%s: this client has %d, which is its limit", kind, limit)
}
