//go:build linux && (amd64 || arm64)

package verbs

import (
	"time"

	"github.com/nicless/nicless/internal/clock"
	"github.com/nicless/nicless/internal/shm"
	"github.com/nicless/nicless/verbs/internal/abi"
)

// A clockPage has the values with which programs convert time stamps of completions, which are
// cycles of the device clock, to nanoseconds of real time (since 1970): struct
// mlx5_ib_clock_info. Programs read the page while this server writes it. A program reads the
// page again if the field sign is odd, or is not the same before and after reading.
//
// The page of the core clock (MLX5_IB_MMAP_CORE_CLOCK), which libmlx5 reads in
// ibv_query_rt_values_ex, is not offered, because its memory would have to count by itself.
// The shim answers that call (shim/clock.c).
type clockPage struct {
	page *shm.Region
	stop chan struct{}
	done chan struct{}
}

// clockShift is the value of the page's field shift: (cycles * mult) >> shift is nanoseconds.
// With 22 bits the error is below a millionth, and cycles * mult fits in 64 bits for half an
// hour of cycles.
const clockShift = 22

// refresh is how often the page gets a new starting point: often enough that the page
// follows changes of real time, and that cycles * mult never overflows.
const refresh = time.Minute

func newClockPage() (*clockPage, error) {
	page, err := shm.CreateSealed("verbs-clock", pageSize)
	if err != nil {
		return nil, err
	}
	// Without this, a later write would end this process if there is no memory for the page.
	if err := page.Populate(page.Bytes()); err != nil {
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
	sign := uint32(word(abi.MLX5ClockInfoSign).Observe())
	updating := sign | abi.MLX5ClockInfoKernelUpdating
	word(abi.MLX5ClockInfoSign).Publish(uint64(updating)) // the upper half is resv, which is 0
	nanos, cycles := readClocks()
	word(abi.MLX5ClockInfoNsec).Publish(nanos)
	word(abi.MLX5ClockInfoCycles).Publish(cycles)
	word(abi.MLX5ClockInfoFrac).Publish(0)
	mult := uint64(float64(uint64(1)<<clockShift) * 1e9 / float64(clock.Hz()))
	word(abi.MLX5ClockInfoMult).Publish(mult | clockShift<<32) // the upper half is shift
	word(abi.MLX5ClockInfoMask).Publish(^uint64(0))
	word(abi.MLX5ClockInfoSign).Publish(uint64(updating + 1))
}

// readClocks returns real time and the cycles at that time. A thread that loses its core between the two
// readings would make the page wrong for as long, until it is written again. So it is read a few times, if
// necessary, and the readings that are nearest to each other count.
func readClocks() (nanos, cycles uint64) {
	least := ^uint64(0)
	for range 10 {
		before := clock.Now()
		now := time.Now()
		between := clock.Now() - before
		if between < least {
			least, nanos, cycles = between, uint64(now.UnixNano()), before+between/2
		}
		if least < clock.Cycles(time.Microsecond) {
			break
		}
	}
	return nanos, cycles
}
