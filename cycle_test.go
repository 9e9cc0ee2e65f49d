package nicless

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/nicless/nicless/internal/await"
	"github.com/nicless/nicless/internal/explore"
	"github.com/stretchr/testify/require"
)

// A thousand clients that connect, work and vanish leave nothing in the engine:
// no descriptor, mapping or goroutine.
func TestManyClientsLeaveNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	ready := make(chan struct{})
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- Serve(ctx, path, 0o600, Config{}, func() { close(ready) }) }()
	<-ready
	count := func() [3]int {
		fds, err := os.ReadDir("/proc/self/fd")
		require.NoError(t, err)
		maps, err := os.ReadFile("/proc/self/maps")
		require.NoError(t, err)
		// Only memfd mappings count, because the runtime maps memory too, for instance for
		// threads.
		return [3]int{len(fds), strings.Count(string(maps), "memfd:"), runtime.NumGoroutine()}
	}
	cycle(t, path)
	var before [3]int
	settle := func(ok func([3]int) bool) {
		await.Until(t, "descriptors, mappings and goroutines stay the same", func() bool { return ok(count()) }, func() any { return [2][3]int{before, count()} })
	}
	settle(func(now [3]int) bool { same := now == before; before = now; return same })
	for range explore.Rounds(200, 1000) {
		cycle(t, path)
	}
	settle(func(now [3]int) bool { return now[0] <= before[0] && now[1] <= before[1] && now[2] <= before[2] })
	stop()
	require.NoError(t, <-served)
}

// cycle connects a client, lets it work, and ends it. The client itself destroys nothing.
func cycle(t *testing.T, path string) {
	t.Helper()
	c, err := Dial(path)
	require.NoError(t, err)
	defer c.Close()
	pd, cq, a := connected(t, c)
	mr, err := pd.RegisterMemory(4096, FullAccess)
	require.NoError(t, err)
	require.NoError(t, a.PostSend(&SendWR{Op: Write, Flags: Signaled, SGE: []SGE{mr.SGE(0, 8)}, RemoteAddr: mr.Addr(), RKey: mr.RKey()}))
	var done [1]Completion
	_, err = cq.Wait(t.Context(), done[:])
	require.NoError(t, err)
	require.NoError(t, done[0].Err())
}
