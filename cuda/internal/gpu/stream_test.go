package gpu

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// The tasks of a stream that is destroyed are still waited for.
func TestDestroyedStream(t *testing.T) {
	d := New(Config{Devices: 1}).devices[0]
	s, c := d.NewStream(0, 0)
	require.Equal(t, Success, c)
	hold := make(chan struct{})
	require.Equal(t, Success, s.Call(func() { <-hold }))
	require.Equal(t, Success, s.Destroy())
	require.Equal(t, InvalidHandle, s.Destroy(), "twice")
	legacy, _ := d.Stream(0)
	require.Equal(t, NotReady, legacy.Query())
	close(hold)
	require.Equal(t, Success, d.Synchronize())
	require.Equal(t, Success, legacy.Query())
}

// A thread's default stream waits for the legacy one, and that for it, but not for another thread's.
func TestStreamsOfThreads(t *testing.T) {
	d := New(Config{Devices: 1}).devices[0]
	a, made := d.StreamOfThread(1)
	require.True(t, made)
	b, _ := d.StreamOfThread(2)
	again, made := d.StreamOfThread(1)
	require.False(t, made)
	require.Same(t, a, again)
	require.NotSame(t, a, b)
	hold := make(chan struct{})
	require.Equal(t, Success, a.Call(func() { <-hold }))
	ran := false
	require.Equal(t, Success, b.Call(func() { ran = true }))
	require.Equal(t, Success, b.Synchronize())
	require.True(t, ran)
	legacy, c := d.Stream(1)
	require.Equal(t, Success, c)
	require.Equal(t, NotReady, legacy.Query())
	require.Equal(t, Success, legacy.Call(func() {}))
	require.Equal(t, NotReady, b.Query(), "after what the legacy stream has to do")
	close(hold)
	require.Equal(t, Success, b.Synchronize())
	require.Equal(t, Success, d.Synchronize())
	require.Equal(t, InvalidHandle, a.Destroy())
}

// Only events of one device that have times have a time between them.
func TestEvents(t *testing.T) {
	s := New(Config{Devices: 2})
	d, other := s.devices[0], s.devices[1]
	stream, _ := d.Stream(0)
	begin, end, timeless := d.NewEvent(0), d.NewEvent(0), d.NewEvent(DisableTiming)
	for _, e := range []*Event{begin, end, timeless} {
		require.Equal(t, Success, e.Record(stream))
		require.Equal(t, Success, e.Synchronize())
	}
	ms, c := end.Since(begin)
	require.Equal(t, Success, c)
	require.GreaterOrEqual(t, ms, float32(0))
	_, c = timeless.Since(begin)
	require.Equal(t, InvalidHandle, c)
	require.Equal(t, InvalidHandle, other.NewEvent(0).Record(stream), "a stream of another device")
}

// The default stream of a thread that has ended is dropped, after its tasks. Another thread of the same
// number has its own one.
func TestStreamsOfThreadsEnd(t *testing.T) {
	s := New(Config{Devices: 2})
	d := s.devices[0]
	a, _ := d.StreamOfThread(1)
	hold := make(chan struct{})
	require.Equal(t, Success, a.Call(func() { <-hold }))
	s.ThreadEnds(1)
	require.Empty(t, d.threads)
	next, made := d.StreamOfThread(1)
	require.True(t, made)
	require.NotSame(t, a, next)
	require.Equal(t, Success, next.Query(), "it does not wait for the other thread's")
	legacy, _ := d.Stream(0)
	require.Equal(t, NotReady, legacy.Query())
	close(hold)
	require.Equal(t, Success, d.Synchronize())
	for thread := range 1000 {
		d.StreamOfThread(thread)
		s.ThreadEnds(thread)
	}
	require.Empty(t, d.threads)
	require.Len(t, d.ending, 1)
}
