package nicless

import (
	"runtime"
	"testing"

	"github.com/nicless/nicless/internal/await"
	"github.com/nicless/nicless/internal/shm"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// dropped makes a Context, calls use with it, and drops it. The returned device ends when
// the garbage collector has found the Context and closed it.
func dropped(t *testing.T, use func(*Context)) (*client, device) {
	t.Helper()
	dev, err := openEmbedded(Config{})
	require.NoError(t, err)
	ctx, err := newContext(dev, nil)
	require.NoError(t, err)
	t.Cleanup(func() { _ = dev.Close() })
	use(ctx)
	return ctx.client, dev
}

// requireCollected checks that the garbage collector finds the Context of dev.
func requireCollected(t *testing.T, dev device) {
	t.Helper()
	await.Until(t, "the collector finds the Context", func() bool {
		runtime.GC()
		select {
		case <-dev.Done():
			return true
		default:
			return false
		}
	})
}

// An event that is not taken does not keep a dropped Context from being collected.
func TestDroppedContextWithEvent(t *testing.T) {
	_, dev := dropped(t, func(c *Context) {
		_, _, a := connected(t, c)
		require.NoError(t, a.Modify(&Attr{Mask: AttrState, State: StateSQD}))
		await.Until(t, "an event waits", func() bool { return len(c.inbox) == 1 })
	})
	requireCollected(t, dev)
}

// A program that has called Done, EventFd or Channel.Fd of a Context keeps that Context
// alive until it closes the Context.
func TestHeldContext(t *testing.T) {
	for name, use := range map[string]func(*Context){
		"Done": func(c *Context) { c.Done() },
		"EventFd": func(c *Context) {
			_, err := c.EventFd()
			require.NoError(t, err)
		},
		"Channel.Fd": func(c *Context) {
			ch, err := c.CreateChannel()
			require.NoError(t, err)
			require.NotEqual(t, -1, ch.Fd())
		},
	} {
		t.Run(name, func(t *testing.T) {
			found := make(chan struct{})
			c, dev := dropped(t, func(c *Context) {
				runtime.AddCleanup(c, func(found chan struct{}) { close(found) }, found)
				use(c)
			})
			for range 3 { // collections that close other Contexts
				_, other := dropped(t, func(*Context) {})
				requireCollected(t, other)
			}
			require.NoError(t, c.err())

			require.NoError(t, c.close())
			<-dev.Done()
			await.Until(t, "Close lets go of the Context", func() bool {
				runtime.GC()
				select {
				case <-found:
					return true
				default:
					return false
				}
			})
		})
	}
}

// A slice of memory of a dropped Context stays readable, because the garbage collector
// cannot see that the program has the slice.
func TestSliceOfDroppedContext(t *testing.T) {
	if shm.RaceEnabled {
		t.Skip("memory is the collector's under the race detector, and is not unmapped")
	}
	for range 10 {
		var late []byte
		released := make(chan struct{})
		c, dev := dropped(t, func(c *Context) {
			pd, err := c.AllocPD()
			require.NoError(t, err)
			mr, err := pd.RegisterMemory(shm.PageSize, FullAccess)
			require.NoError(t, err)
			late = mr.Bytes()
			late[0] = 7
			runtime.AddCleanup(mr, func(released chan struct{}) { close(released) }, released)
		})
		requireCollected(t, dev)
		<-released
		await.Until(t, "the arena is closed", func() bool { // close closes the arena after the memory
			c.arena.mu.Lock()
			defer c.arena.mu.Unlock()
			return c.arena.closed
		})
		require.NoError(t, unix.Msync(late, unix.MS_ASYNC), "mapped")
		require.Zero(t, late[0])
	}
}
