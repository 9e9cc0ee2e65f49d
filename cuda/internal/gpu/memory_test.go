package gpu

import (
	"testing"

	"github.com/edsrzf/mmap-go"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/nicless/nicless/accel/ptx"
)

// A program may use memory that is not registered as soon as a copy of it has been added.
func TestCopyOfPageableMemory(t *testing.T) {
	d := New(Config{Devices: 1}).devices[0]
	for _, n := range []uint64{4096, 1 << 20} {
		b, err := mmap.MapRegion(nil, int(n), mmap.RDWR, mmap.ANON, 0)
		require.NoError(t, err)
		pageable := ptx.AddressOf(b)
		device, c := d.Allocate(n, DeviceMemory)
		require.Equal(t, Success, c)
		s, _ := d.NewStream(0, 0)

		open := make(chan struct{})
		require.Equal(t, Success, s.Call(func() { <-open }))
		if n > mostStaged {
			close(open) // the copy waits for it
		}
		b[n-1] = 7
		require.Equal(t, Success, s.Copy(device, pageable, n, HostToDevice))
		b[n-1] = 8
		if n <= mostStaged {
			close(open)
		}
		require.Equal(t, Success, s.Copy(pageable, device, n, DeviceToHost))
		require.Equal(t, byte(7), b[n-1])
		require.Equal(t, Success, s.Query(), "the copy has arrived")
		require.Equal(t, Success, d.Free(device))
		require.NoError(t, b.Unmap())
	}
}

// All devices reach memory of the host and managed memory, and one its own only.
func TestPortableMemory(t *testing.T) {
	s := New(Config{Devices: 2})
	d, other := s.devices[0], s.devices[1]
	for _, kind := range []Kind{DeviceMemory, Host, Managed} {
		at, c := d.Allocate(100, kind)
		require.Equal(t, Success, c)
		require.True(t, d.space.Has(at, 100))
		require.Equal(t, kind != DeviceMemory, other.space.Has(at, 100), "kind %d", kind)
		free, wrong := d.Free, d.FreeHost
		if kind == Host {
			free, wrong = wrong, free
		}
		require.Equal(t, InvalidValue, wrong(at))
		require.Equal(t, Success, free(at))
		require.Equal(t, InvalidValue, free(at), "twice")
		require.False(t, other.space.Has(at, 1))
	}
	b, err := mmap.MapRegion(nil, 4096, mmap.RDWR, mmap.ANON, 0)
	require.NoError(t, err)
	at := ptx.AddressOf(b)
	require.Equal(t, Success, d.Register(at, 4096, 0))
	require.True(t, other.space.Has(at, 4096))
	require.Equal(t, AlreadyRegistered, other.Register(at, 4096, 0))
	require.Equal(t, Success, d.Unregister(at))
	require.False(t, other.space.Has(at, 1))
	require.NoError(t, b.Unmap())
}

// A device reaches memory of its peers while access is enabled, and not before or afterwards.
func TestPeers(t *testing.T) {
	s := New(Config{Devices: 2})
	d, other := s.devices[0], s.devices[1]
	before, c := other.Allocate(100, DeviceMemory)
	require.Equal(t, Success, c)
	require.Equal(t, PeerAccessNotEnabled, d.DisablePeer(1))
	require.Equal(t, Success, d.EnablePeer(1))
	require.Equal(t, PeerAccessEnabled, d.EnablePeer(1))
	after, c := other.Allocate(100, DeviceMemory)
	require.Equal(t, Success, c)
	require.True(t, d.space.Has(before, 100))
	require.True(t, d.space.Has(after, 100))
	require.Equal(t, Success, other.Free(before))
	require.False(t, d.space.Has(before, 1))
	require.Equal(t, Success, d.DisablePeer(1))
	require.False(t, d.space.Has(after, 1))
	require.True(t, other.space.Has(after, 100))
	require.Equal(t, Success, other.Free(after))
	for _, number := range []int{-1, 0, 2} {
		require.Equal(t, InvalidDevice, d.EnablePeer(number))
		require.Equal(t, InvalidDevice, d.DisablePeer(number))
	}
	own, c := d.Allocate(100, DeviceMemory)
	require.Equal(t, Success, c)
	require.False(t, other.space.Has(own, 1), "access has one direction")
	require.Equal(t, Success, d.Free(own))
}

// Memory of another process is memory of the device that has opened it, so its peers reach it, too.
func TestPeersReachOpenedMemory(t *testing.T) {
	s := New(Config{Devices: 2})
	d, other := s.devices[0], s.devices[1]
	at, c := d.Allocate(100, DeviceMemory)
	require.Equal(t, Success, c)
	fd, offset, c := d.Descriptor(at, 100)
	require.Equal(t, Success, c)
	require.Equal(t, Success, other.EnablePeer(0))
	opened, c := d.Attach(fd, offset, 100)
	require.Equal(t, Success, c)
	require.NoError(t, unix.Close(fd))
	require.True(t, other.space.Has(opened, 100))
	require.Equal(t, InvalidValue, d.Free(opened), "nobody here has allocated it")
	require.Equal(t, InvalidValue, d.Detach(at), "nobody has opened it")
	require.Equal(t, Success, d.Detach(opened))
	require.False(t, other.space.Has(opened, 1))
	require.Equal(t, InvalidValue, d.Detach(opened), "twice")
	require.Equal(t, Success, d.Free(at))
}

// An allocation of pages begins where its descriptor's file begins, until many have a file each; then they
// share files, and one that is freed makes room for another.
func TestDescriptorOfSmallMemory(t *testing.T) {
	d := New(Config{Devices: 1}).devices[0]
	offsetOf := func(at uint64) uint64 {
		fd, offset, c := d.Descriptor(at, pageBytes)
		require.Equal(t, Success, c)
		require.NoError(t, unix.Close(fd))
		return offset
	}
	var all []uint64
	allocate := func() (offset uint64) {
		at, c := d.Allocate(pageBytes+1, DeviceMemory)
		require.Equal(t, Success, c)
		all = append(all, at)
		require.True(t, at%alignment == 0 || d.own == mostOwn)
		return offsetOf(at)
	}
	for range mostOwn {
		require.Zero(t, allocate())
	}
	allocate()
	require.NotZero(t, allocate(), "the second in a file that allocations share")
	require.Len(t, d.slabs, 1)
	require.Equal(t, Success, d.Free(all[0]))
	require.Zero(t, allocate())
	for _, at := range all[1:] {
		require.Equal(t, Success, d.Free(at))
	}
	require.Zero(t, d.own)
	require.Empty(t, d.slabs)
}
