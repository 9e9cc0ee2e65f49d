package verbs

import (
	"time"

	"github.com/nicless/nicless/internal/clock"
	"github.com/nicless/nicless/internal/shm"
)

// A clockPage tells programs how time stamps of completions, which are cycles of
// the device clock, become nanoseconds of the day: struct mlx5_ib_clock_info. A
// program reads it while we write: an odd sign, or another one behind than
// before, says that it has to read again.
//
// The core clock itself cannot be shown in a page, for nobody would make it tick:
// so that page is not offered.
type clockPage struct {
	page *shm.Region
	stop chan struct{}
	done chan struct{}
}

// Where the fields lie.
const (
	clockSign   = 0  // u32
	clockNanos  = 8  // u64
	clockCycles = 16 // u64
	clockFrac   = 24 // u64
	clockMult   = 32 // u32
	clockShift  = 36 // u32
	clockMask   = 40 // u64
)

// mult and shift make nanoseconds of cycles: (cycles * mult) >> shift. With 22
// bits the error is below a millionth, and half an hour of cycles fits.
const clockShiftBits = 22

// refresh is how often the page gets a new beginning, well before a product
// could overflow, so that it follows the time of day.
const refresh = time.Minute

func newClockPage() (*clockPage, error) {
	page, err := shm.CreateSealed("verbs-clock", pageSize)
	if err != nil {
		return nil, err
	}
	if err := page.Populate(page.Bytes()); err != nil { // else to write it could end the process
		_ = page.Close()
		return nil, err
	}
	c := &clockPage{page: page, stop: make(chan struct{}), done: make(chan struct{})}
	c.write()
	go func() {
		defer close(c.done)
		tick := time.NewTicker(refresh)
		defer tick.Stop()
		for {
			select {
			case <-c.stop:
				return
			case <-tick.C:
				c.write()
			}
		}
	}()
	return c, nil
}

func (c *clockPage) close() {
	close(c.stop)
	<-c.done
	_ = c.page.Close()
}

func (c *clockPage) write() {
	b := c.page.Bytes()
	word := func(off uint64) *shm.Word64 { return shm.Word64At(b, off) }
	sign := uint32(word(clockSign).Observe())
	word(clockSign).Publish(uint64(sign | 1)) // the upper half is reserved
	word(clockNanos).Publish(uint64(time.Now().UnixNano()))
	word(clockCycles).Publish(clock.Now())
	word(clockFrac).Publish(0)
	mult := uint64(float64(uint64(1)<<clockShiftBits) * 1e9 / float64(clock.Hz()))
	word(clockMult).Publish(mult | clockShiftBits<<32)
	word(clockMask).Publish(^uint64(0))
	word(clockSign).Publish(uint64((sign|1)+1) & 0xffffffff)
}
