package nicless

import (
	"fmt"
	"math/bits"

	"github.com/nicless/nicless/doorbell"
)

// A UAR page has four doorbell registers. Any number of queues share the first two, which
// the method register hands out. Each of the other two is for BlueFlame writes of one queue.
const (
	blueFlamesPerPage = 2
	firstBlueFlame    = doorbell.BFRegs - blueFlamesPerPage
)

// takeBlueFlame takes a free BlueFlame register and returns its index plus one.
func (c *client) takeBlueFlame() (n int, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	most := min(blueFlamesPerPage*int(c.limits.UARPages), 64)
	i := bits.TrailingZeros64(^c.blueFlames)
	if i >= most {
		return 0, fmt.Errorf("BlueFlame: all %d registers of the context are taken by other queue pairs", most)
	}
	c.blueFlames |= 1 << i
	return i + 1, nil
}

// giveBlueFlame frees the register for which takeBlueFlame returned n.
func (c *client) giveBlueFlame(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.blueFlames &^= 1 << (n - 1)
}

// blueFlame returns, for BlueFlame register i: its page, its number in control.QP, and
// its bytes.
func (c *client) blueFlame(i int) (page uint16, number uint8, register []byte) {
	page = uint16(i / blueFlamesPerPage)
	r := firstBlueFlame + i%blueFlamesPerPage
	at := uint64(page)*doorbell.UARPageSize + doorbell.BFOffset + uint64(r)*doorbell.BFRegSize
	return page, uint8(1 + r), c.registers[at : at+doorbell.BFRegSize]
}
