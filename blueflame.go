package nicless

import (
	"fmt"
	"math/bits"

	"github.com/nicless/nicless/doorbell"
)

// A UAR page has four registers. Any number of queues share the first two, which the
// method register hands out. Each of the others is for the BlueFlame of one queue.
const (
	blueFlamesPerPage = 2
	firstBlueFlame    = doorbell.BFRegs - blueFlamesPerPage
)

// takeBlueFlame takes a BlueFlame register that is free, and returns one more than its
// index.
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

// giveBlueFlame frees the register that takeBlueFlame has returned.
func (c *client) giveBlueFlame(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.blueFlames &^= 1 << (n - 1)
}

// blueFlame returns the page of BlueFlame register i, its number in control.QP, and its
// bytes.
func (c *client) blueFlame(i int) (page uint16, number uint8, register []byte) {
	page = uint16(i / blueFlamesPerPage)
	r := firstBlueFlame + i%blueFlamesPerPage
	at := uint64(page)*doorbell.UARPageSize + doorbell.BFOffset + uint64(r)*doorbell.BFRegSize
	return page, uint8(1 + r), c.registers[at : at+doorbell.BFRegSize]
}
