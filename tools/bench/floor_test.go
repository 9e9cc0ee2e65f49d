package bench

import (
	"bytes"
	"testing"

	"github.com/nicless/nicless"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// floorOf returns the floor of a configuration, on any core.
func floorOf(t *testing.T, s shape, size, slots int) *floor {
	t.Helper()
	f, err := newFloor(s, size, slots, 64, -1)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, f.close()) })
	return f
}

func TestFloors(t *testing.T) {
	stream := func(each int) func(*floor) (sample, error) {
		return func(f *floor) (sample, error) {
			t, err := f.stream(640, streaming{shape: f.shape, depth: 32, batch: 16, each: each})
			return t.millions(640), err
		}
	}
	trip := func(f *floor) (sample, error) { return f.roundTrip(20) }
	for name, c := range map[string]struct {
		shape       shape
		size, slots int
		measure     func(*floor) (sample, error)
	}{
		"round trip":                    {shape{}, 4096, 1, trip},
		"round trip, place in the WQE":  {shape{named: true}, 4096, 1, trip},
		"round trip, payload inside":    {shape{inline: true}, 300, 1, trip},
		"round trip, two lines in turn": {shape{inline: true, polled: true}, polledMost, 1, trip},
		"round trip, receives":          {shape{receives: true}, 4096, 1, trip},
		"stream":                        {shape{}, 4096, 64, stream(1)},
		"stream, few completions":       {shape{}, 4096, 64, stream(8)},
		"stream, place in the WQE":      {shape{named: true}, 4096, 64, stream(1)},
		"stream, payload inside":        {shape{inline: true}, 100, 64, stream(1)},
		"stream, receives":              {shape{receives: true}, 4096, 64, stream(1)},
		"stream, receives, inside":      {shape{receives: true, inline: true}, 8, 64, stream(8)},
		"fastest": {shape{}, 4096, 64, func(f *floor) (sample, error) {
			t, err := f.fastest(200, streaming{depth: 16, batch: 1, each: 1})
			return t.megabytes(200, f.size), err
		}},
	} {
		f := floorOf(t, c.shape, c.size, c.slots)
		s, err := c.measure(f)
		require.NoError(t, err)
		assert.Positive(t, s.value, name)
		used := c.slots * c.size
		assert.True(t, bytes.Equal(f.src[:used], f.dst[:used]), name)
	}
}

// linesChanged counts the cache lines of a floor that f changes.
func linesChanged(f *floor, do func()) (lines int) {
	before := bytes.Clone(f.mem)
	do()
	for at := 0; at < len(before); at += 64 {
		if !bytes.Equal(before[at:at+64], f.mem[at:at+64]) {
			lines++
		}
	}
	return lines
}

// A floor moves the lines of its row: those that each side writes for 64 operations of 8 bytes are
// counted. A SEND has four lines: its WQE, a fourth of a line of receives, and two completions; the payloads
// of eight share a line.
func TestLinesOfFloors(t *testing.T) {
	const n = 64
	for name, c := range map[string]struct {
		shape          shape
		size           int
		poster, device int
	}{
		"WRITE":             {shape{}, 8, n + 1, n + n/8},
		"READ":              {shape{named: true}, 8, n + 1, n + n/8},
		"inline":            {shape{inline: true}, 8, n + 1, n + n/8},
		"inline, 100 bytes": {shape{inline: true}, 100, 3*n + 1, n + n*100/64},
		"SEND":              {shape{receives: true}, 8, n + n/4 + 1, 2*n + n/8},
	} {
		f := floorOf(t, c.shape, c.size, n)
		if c.shape.receives {
			f.receive(0)
		}
		assert.Equal(t, c.poster, linesChanged(f, func() {
			for i := range uint64(n) {
				f.post(i)
			}
			f.doorbell.Publish(n)
			if c.shape.receives {
				f.receive(n)
			}
		}), name)
		for i := range f.src {
			f.src[i] = ^f.dst[i]
		}
		assert.Equal(t, c.device, linesChanged(f, func() { f.answering(1)(n) }), name)
	}
}

// The device of these shapes finds payloads by descriptors only, so it cannot fetch a payload before its
// descriptor.
func TestDescriptorsSayWherePayloadsAre(t *testing.T) {
	f := floorOf(t, shape{named: true}, 8, 64)
	put(f.descriptor(0), 24, 1)
	f.answer(0)
	assert.Equal(t, f.src[24:32], f.dst[24:32])
	assert.NotEqual(t, f.src[:8], f.dst[:8])

	f = floorOf(t, shape{receives: true}, 8, 64)
	f.receive(0)
	put(f.descriptor(0), 24, 1)
	copy(f.receiveDescriptor(0), []byte{40})
	f.answer(0)
	assert.Equal(t, f.src[24:32], f.dst[40:48])
}

func TestNamesOfFloors(t *testing.T) {
	for want, c := range map[string]Config{
		"pp_wqe_doorbell_memcpy_cqe_rtt":                 {Metric: Latency, Op: nicless.Write},
		"pp_inline_wqe_doorbell_memcpy_cqe_rtt":          {Metric: Latency, Op: nicless.Write, Inline: true},
		"pp_poll_inline_wqe_memcpy_cqe_rtt":              {Metric: Latency, Op: nicless.Write, Inline: true, BlueFlame: true},
		"pp_wqe_doorbell_sge_memcpy_cqe_rtt":             {Metric: Latency, Op: nicless.Read},
		"pp_wqe_doorbell_rwqe_memcpy_rcqe_cqe_rtt":       {Metric: Latency, Op: nicless.Send},
		"stream_wqe_rwqe_memcpy_rcqe_cqe_db16_depth64":   {Metric: Rate, Op: nicless.Send},
		"stream_inline_wqe_memcpy_cqe_db16_sig8_depth64": {Metric: Rate, Op: nicless.Write, Inline: true, Signal: 8},
	} {
		require.NoError(t, c.Complete())
		assert.Equal(t, want, c.floorOp())
	}
}

// A floor that moved between its two measurements is that of two placements of the cores.
func TestSteadyFloors(t *testing.T) {
	assert.Equal(t, sample{110, 0.25}, sample{100, 0}.steady(sample{120, 0.25}))
	assert.Equal(t, sample{137, 1}, sample{74, 0}.steady(sample{200, 0}))
	assert.Equal(t, sample{137, 1}, sample{200, 0.5}.steady(sample{74, 0}))
}
