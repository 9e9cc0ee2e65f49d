package nicless

import (
	"fmt"
	"math/bits"

	"github.com/nicless/nicless/doorbell"
)

// Of the four registers of a UAR page, register hands out the first two, to many
// queues; the others are for BlueFlame, each for one queue alone.
const (
	flamesPerPage = 2
	firstFlame    = doorbell.BFRegs - flamesPerPage
)

// takeFlame takes a BlueFlame register that nobody has, and returns one more than
// its index.
func (c *client) takeFlame() (n int, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	most := min(flamesPerPage*int(c.limits.UARPages), 64)
	i := bits.TrailingZeros64(^c.flames)
	if i >= most {
		return 0, fmt.Errorf("BlueFlame: all %d registers of the context are taken by other queue pairs", most)
	}
	c.flames |= 1 << i
	return i + 1, nil
}

// giveFlame gives back what takeFlame has returned.
func (c *client) giveFlame(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.flames &^= 1 << (n - 1)
}

// flame returns where BlueFlame register i is: its page, what control.QP calls it,
// and its bytes.
func (c *client) flame(i int) (page uint16, number uint8, register []byte) {
	page = uint16(i / flamesPerPage)
	r := firstFlame + i%flamesPerPage
	at := uint64(page)*doorbell.UARPageSize + doorbell.BFOffset + uint64(r)*doorbell.BFRegSize
	return page, uint8(1 + r), c.uar.Bytes()[at : at+doorbell.BFRegSize]
}
