//go:build linux && (amd64 || arm64)

package rack

import (
	"flag"
	"slices"
	"testing"
	"time"

	"github.com/nicless/nicless"
	"github.com/stretchr/testify/require"
)

// Arguments for a large file: go test ./tools/rack -run TestLongPath -v -timeout 1h -args -bytes 1000000000
var (
	fileSize = flag.Int("bytes", 3_000_000, "that RDMA and BBR carry over a long path; a twentieth by CUBIC, but no less than this")
	delay    = flag.Duration("delay", 25*time.Millisecond, "of a long path, each way")
	line     = flag.Float64("line", 40e6, "bytes a second that a long path carries")
	loss     = flag.Float64("loss", 0.01, "part of the packets that a long path loses")
	without  = flag.String("without", "", "a congestion control of TCP that is left out")
	half     = flag.Bool("half", false, "fail if WRITEs carry less than half of what TCP does")
	times    = flag.Int("times", 3, "how often each row over a short path is measured")
)

func newPath(t *testing.T, w Way, size int) *Path {
	t.Helper()
	needsNetwork(t)
	p, err := NewPath(config(t), w, size)
	if p != nil {
		t.Cleanup(p.Close)
	}
	require.NoError(t, err)
	return p
}

// A file goes over a long path that loses packets, by RDMA and by TCP, and the data is right. The path has a
// queue of a round trip.
func TestLongPath(t *testing.T) {
	w := Way{Delay: *delay, Rate: *line, Queue: 2 * *delay, Loss: *loss, Seed: 1}
	p := newPath(t, w, *fileSize)
	carry := func(what string, size int, move func() (time.Duration, error)) float64 {
		_, err := p.Set(w)
		require.NoError(t, err)
		took, err := move()
		require.NoError(t, err)
		carried, err := p.Set(w)
		require.NoError(t, err)
		rate := float64(size) / took.Seconds()
		t.Logf("%-10s %5.1f MB/s, %d bytes in %.2f s; there %+v, back %+v", what, rate/1e6, size,
			took.Seconds(), carried[0], carried[1])
		return rate
	}
	list, err := controls()
	if *without != "" {
		list = slices.DeleteFunc(list, func(c string) bool { return c == *without })
	}
	require.NoError(t, err)
	require.NotEmpty(t, list)
	best := 0.0
	for _, control := range list {
		size := *fileSize
		if control == "cubic" {
			size = max(size/20, min(size, 3_000_000))
		}
		best = max(best, carry("TCP "+control, size, func() (time.Duration, error) { return p.TCP(control, size) }))
	}
	write := carry("RDMA WRITE", *fileSize, func() (time.Duration, error) { return p.RDMA(nicless.Write, *fileSize, piece) })
	carry("RDMA READ", *fileSize, func() (time.Duration, error) { return p.RDMA(nicless.Read, *fileSize, piece) })
	if *half {
		require.Greater(t, write, best/2)
	}
}

// 20 WRITEs go over a short path that loses none or some of its packets, and the data is right.
func TestShortPathThatLoses(t *testing.T) {
	const writes = 20
	p := newPath(t, Way{}, writes*200_000)
	for _, size := range []int{10_000, 200_000} {
		for _, lost := range []float64{0, 0.01, 0.03, 0.1} {
			var all []time.Duration
			var sent uint64
			for seed := range uint64(*times) {
				_, err := p.Set(Way{Loss: lost, Seed: seed})
				require.NoError(t, err)
				took, err := p.RDMA(nicless.Write, writes*size, size)
				require.NoError(t, err)
				all = append(all, took)
				carried, err := p.Set(Way{})
				require.NoError(t, err)
				sent += carried[0].Packets
			}
			slices.Sort(all)
			t.Logf("%d WRITEs of %d bytes, %.2f lost: median %v, longest %v, %d packets, n = %d", writes, size, lost,
				all[len(all)/2].Round(10*time.Microsecond), all[len(all)-1].Round(10*time.Microsecond),
				sent/uint64(len(all)), len(all))
		}
	}
}
