//go:build linux && (amd64 || arm64)

package nicless

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/nicless/nicless/internal/control"
	"github.com/stretchr/testify/require"
)

var figuresTo = flag.String("figures", "", "TestFigures: the file to which the counts are appended")

// A counting is a device that counts the requests of a client.
type counting struct {
	device
	calls atomic.Int64
}

func (c *counting) Call(op control.Op, req, ans control.Message) (control.Reply, error) {
	c.calls.Add(1)
	return c.device.Call(op, req, ans)
}

// TestFigures appends figures to a file, for .ci/bench: how many requests and allocations it takes to
// make and connect a queue pair, half of what two take. Both sides of the connection are in this process.
func TestFigures(t *testing.T) {
	if *figuresTo == "" {
		t.Skip("for .ci/bench, which gives -figures")
	}
	c, err := Open(Config{})
	require.NoError(t, err)
	defer c.Close()
	d := &counting{device: c.client.dev}
	c.client.dev = d
	pd, err := c.AllocPD()
	require.NoError(t, err)
	cq, err := c.CreateCQ(CQConfig{})
	require.NoError(t, err)
	const pairs = 500
	var all []*QP
	pair := func() {
		a, err := pd.CreateQP(QPConfig{SendCQ: cq})
		require.NoError(t, err)
		b, err := pd.CreateQP(QPConfig{SendCQ: cq})
		require.NoError(t, err)
		require.NoError(t, Pair(a, b, Connection{}))
		all = append(all, a, b)
	}
	pair()
	var before, after runtime.MemStats
	calls := d.calls.Load()
	runtime.ReadMemStats(&before)
	for range pairs {
		pair()
	}
	runtime.ReadMemStats(&after)
	f, err := os.OpenFile(*figuresTo, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	require.NoError(t, err)
	_, err = fmt.Fprintf(f, "qp-connect-requests\t%.1f\trequests\nqp-connect-allocations\t%.1f\tallocations\n",
		float64(d.calls.Load()-calls)/(2*pairs), float64(after.Mallocs-before.Mallocs)/(2*pairs))
	require.NoError(t, errors.Join(err, f.Close()))
	for _, q := range all {
		require.NoError(t, q.Close())
	}
}
