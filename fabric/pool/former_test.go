package pool

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// An engine that was killed and comes back takes its number again, before the others have found that it was
// dead, and while others live. It takes no number of a node that lives, also if that has its GUID.
func TestFormerNumber(t *testing.T) {
	w, n := needWorld(t, 1, 8<<20, 3, Config{Nodes: 8, Dead: time.Minute})
	talk(t, w, n[0], n[2])
	w.kill(n[2])
	again := w.make(Config{Node: AnyNode, Dead: time.Minute})
	again.guid = n[2].guid
	require.NoError(t, again.pool.start(context.Background()))
	w.nodes = append(w.nodes, again)
	require.Equal(t, 2, again.pool.number)
	again.number = 2
	w.until(4*tick, func() bool { return n[0].link(2).pair == nil && n[0].link(2).alive }, "the former life is over")
	talk(t, w, n[0], again)

	twin := w.make(Config{Node: AnyNode, Dead: time.Minute})
	twin.guid = n[1].guid
	require.NoError(t, twin.pool.start(context.Background()))
	require.NotContains(t, []int{0, 1, 2}, twin.pool.number)
}
