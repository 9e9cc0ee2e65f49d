package gpu

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Memory that a stream frees is reached until the stream gets there. The stream can have it again at once,
// and nobody else.
func TestFreeInStream(t *testing.T) {
	d := New(Config{Devices: 1}).devices[0]
	before := d.Info()
	s, _ := d.NewStream(NonBlocking, 0)
	other, _ := d.NewStream(NonBlocking, 0)
	hold := make(chan struct{})
	require.Equal(t, Success, s.Call(func() { <-hold }))
	at, c := d.AllocateIn(s, 5000)
	require.Equal(t, Success, c)
	require.Equal(t, Success, d.FreeIn(s, at))
	require.True(t, d.space.Has(at, 5000), "earlier tasks use it")
	require.Equal(t, InvalidValue, d.FreeIn(s, at), "twice")
	require.Equal(t, InvalidValue, d.FreeIn(other, at), "twice")
	kind, _, _ := d.Find(at)
	require.Equal(t, Unregistered, kind)

	theirs, c := d.AllocateIn(other, 5000)
	require.Equal(t, Success, c)
	require.NotEqual(t, at, theirs)
	smaller, _ := d.AllocateIn(s, 4999)
	require.NotEqual(t, at, smaller, "it has another size, which kernels may not leave")
	again, c := d.AllocateIn(s, 5000)
	require.Equal(t, Success, c)
	require.Equal(t, at, again)

	require.Equal(t, Success, d.FreeIn(other, theirs))
	require.Equal(t, Success, other.Synchronize())
	require.False(t, d.space.Has(theirs, 1), "the other stream has got there")
	close(hold)
	require.Equal(t, Success, s.Synchronize())
	require.True(t, d.space.Has(at, 5000), "it is the program's again")
	require.Equal(t, Success, d.FreeIn(s, at))
	require.Equal(t, Success, d.FreeIn(s, smaller))
	require.Equal(t, Success, s.Synchronize())
	require.False(t, d.space.Has(at, 1))
	require.Equal(t, before, d.Info())
	require.Empty(t, d.freed)
}

// An allocation waits for memory that its stream has freed, if the device has no other.
func TestAllocationWaitsForItsStream(t *testing.T) {
	d := New(Config{Devices: 1}).devices[0]
	s, _ := d.NewStream(NonBlocking, 0)
	other, _ := d.NewStream(NonBlocking, 0)
	first, c := d.AllocateIn(s, Total/2+4096)
	require.Equal(t, Success, c)
	hold := make(chan struct{})
	require.Equal(t, Success, s.Call(func() { <-hold }))
	require.Equal(t, Success, d.FreeIn(s, first))
	_, c = d.AllocateIn(other, Total/2)
	require.Equal(t, OutOfMemory, c, "the other stream has freed nothing")
	got := make(chan Code)
	go func() {
		_, c := d.AllocateIn(s, Total/2)
		got <- c
	}()
	close(hold)
	require.Equal(t, Success, <-got)
}

// A device that is broken takes no memory back, and the allocation is as before.
func TestFreeInStreamOfBrokenDevice(t *testing.T) {
	d := New(Config{Devices: 1}).devices[0]
	s, _ := d.NewStream(0, 0)
	at, _ := d.Allocate(100, DeviceMemory)
	d.fail(IllegalAddress, errUnregistered)
	require.Equal(t, IllegalAddress, d.FreeIn(s, at))
	kind, _, _ := d.Find(at)
	require.Equal(t, DeviceMemory, kind)
	require.Empty(t, d.freed)
}
