package pool

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/nicless/nicless/fabric"
	"github.com/stretchr/testify/require"
)

// A node that begins its link anew all the time causes a limited number of lines in the log of
// another node.
func TestFlippingNodeHasABudget(t *testing.T) {
	w := newWorld(t, 1)
	var out strings.Builder
	a := w.mustStart(Config{Node: 0, Log: slog.New(slog.NewTextHandler(&out, nil))})
	b := w.mustStart(Config{Node: 1})
	for range 2 * fabric.LinesPerMinute {
		w.until(time.Second, func() bool { return a.up(1) && b.up(0) }, "both ends are up")
		b.pool.links[0].pair.session = session{}
		w.until(time.Second, func() bool { return !a.up(1) }, "the link begins anew")
	}
	require.LessOrEqual(t, strings.Count(out.String(), "\n"), fabric.LinesPerMinute)
	require.Greater(t, strings.Count(out.String(), "link up"), fabric.LinesPerMinute/4)
}
