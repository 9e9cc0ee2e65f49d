//go:build linux && (amd64 || arm64)

package request

import (
	"time"

	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/internal/clock"
)

// Moderate holds each event of a CQ back until there were count completions or period microseconds have
// passed. If count or period is 0, events are sent at once.
func (c *Client) Moderate(cqn uint32, count, period uint16) (err error) {
	c.Mu.Lock()
	defer c.Mu.Unlock()
	if c.Closed {
		return object.ErrClosed
	}
	c.Device.Do(func() {
		q := c.CQs[cqn]
		if q == nil {
			err = object.NotFound("CQ", cqn)
			return
		}
		waits := q.Moderation != nil && q.Moderation.Since != 0
		switch {
		case count == 0 || period == 0:
			late := q.Late != 0 // it waits for room, not for its time
			if !late {
				c.Loop().Unhold(q)
			}
			q.Moderation = nil
			if waits && q.Armed && !late {
				c.Loop().Fire(q)
			}
		case q.Moderation == nil:
			q.Moderation = &object.Moderation{First: q.Next}
			fallthrough
		default:
			q.Moderation.Count, q.Moderation.Period = uint64(count),
				clock.Cycles(time.Duration(period)*time.Microsecond)
		}
	})
	return err
}
