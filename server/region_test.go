package server

import (
	"fmt"
	"os"
	"testing"

	"github.com/nicless/nicless/engine"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/internal/shm"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// A client that can punch holes into its memory can stop the device's thread for as long as it
// likes, because a thread that touches the range waits in the kernel until the hole is made. So
// the device refuses memory that is not sealed against holes.
func TestNobodyTakesPagesFromUnderTheDevice(t *testing.T) {
	r := newRig(t, engine.Config{})
	c := r.dial(r.serve())
	c.hello()
	punch := func(mem *shm.Region) error {
		return unix.Fallocate(int(mem.File().Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, 0, shm.PageSize)
	}
	id, mem := c.newRegion(8192)
	require.NoError(t, punch(mem), "nobody has sealed it yet")
	place := &control.Placement{ID: id, Addr: 0x10000}
	refusal := c.call(control.OpPlaceRegion, place, &control.Empty{})
	require.Equal(t, control.CodeMemory, refusal.Code)
	require.Contains(t, refusal.Text, "region 0x1: its memory can still lose pages")
	var pd control.PD
	require.Nil(t, c.call(control.OpAllocPD, &control.Empty{}, &pd))
	key := &control.MR{PDN: pd.PDN, Addr: 0x10000, Length: 100}
	require.Equal(t, control.CodeInvalid, c.call(control.OpRegMR, key, &control.Key{}).Code, "it has no place")

	require.NoError(t, mem.Seal())
	require.Nil(t, c.call(control.OpPlaceRegion, place, &control.Empty{}))
	require.Nil(t, c.call(control.OpRegMR, key, &control.Key{}))
	require.Equal(t, unix.EPERM, punch(mem))
	again, err := os.OpenFile(fmt.Sprintf("/proc/self/fd/%d", mem.File().Fd()), os.O_RDWR, 0)
	require.NoError(t, err)
	defer again.Close()
	require.Equal(t, unix.EPERM, unix.Fallocate(int(again.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, 0, shm.PageSize), "opened anew")
	require.Equal(t, unix.EPERM, unix.Madvise(mem.Bytes()[:shm.PageSize], unix.MADV_REMOVE))
	require.Equal(t, unix.EPERM, unix.Ftruncate(int(mem.File().Fd()), 0))

	refusal = c.call(control.OpPlaceRegion, place, &control.Empty{})
	require.Equal(t, control.CodeNotFound, refusal.Code, "it has a place")
}

// UAR pages are memory that the device polls, so they must be sealed too.
func TestQueuesNeedSealedRegisters(t *testing.T) {
	r := newRig(t, engine.Config{})
	c := r.dial(r.serve())
	c.send(control.Append(nil, control.OpHello, 0, 1, &hello))
	_, _, fds, ok := c.answer()
	require.True(t, ok)
	_ = unix.Close(fds[1])
	uar := c.mapped(fds[0])
	c.region(0x10000, 8192)
	cq := &control.CQ{Buf: 0x10000, DBRec: 0x11000, LogCQE: 6}
	refusal := c.call(control.OpCreateCQ, cq, &control.CQN{})
	require.Equal(t, control.CodeMemory, refusal.Code)
	require.Contains(t, refusal.Text, "the UAR pages can still lose pages")
	require.NoError(t, uar.Seal())
	before := holdings(t)
	require.Nil(t, c.call(control.OpCreateCQ, cq, &control.CQN{}))
	require.Equal(t, before[0]-2, holdings(t)[0], "their descriptors, and those of the status page, are needed no more")
}

// The status page is sealed against holes when the client gets it.
func TestNobodyTakesTheStatusPage(t *testing.T) {
	r := newRig(t, engine.Config{})
	c := r.dial(r.serve())
	c.send(control.Append(nil, control.OpHello, 0, 1, &hello))
	_, _, fds, ok := c.answer()
	require.True(t, ok)
	defer unix.Close(fds[0])
	defer unix.Close(fds[1])
	require.Equal(t, unix.EPERM, unix.Fallocate(fds[1], unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, 0, shm.PageSize))
}

// The regions of a client are limited, whatever their state is, and are released with the client.
func TestRegionsThatAreNeverPlaced(t *testing.T) {
	r := newRig(t, engine.Config{Limits: engine.Limits{Regions: 3, Bytes: 1 << 20}})
	path := r.serve()
	before := holdings(t)
	c := r.dial(path)
	c.hello()
	create := func(size uint64) *control.Error {
		return c.call(control.OpCreateRegion, &control.RegionSize{Size: size}, &control.RegionID{})
	}
	for _, size := range []uint64{0, shm.MaxRegion + 1, ^uint64(0)} {
		refusal := create(size)
		require.Equal(t, control.CodeInvalid, refusal.Code, "%d", size)
		require.Contains(t, refusal.Text, fmt.Sprintf("region of %d bytes; 1 to 1099511627776 are possible", size))
	}
	require.Contains(t, create(1<<20+1).Text, "this client has 0 of its 1048576")
	require.Nil(t, create(1))
	require.Nil(t, create(4096))
	require.Contains(t, create(1<<20).Text, "this client has 8192 of its 1048576")
	require.Nil(t, create(5000))
	require.Equal(t, control.CodeLimit, create(1).Code, "three regions")
	require.Nil(t, c.call(control.OpDropRegion, &control.RegionID{ID: 2}, &control.Empty{}), "never placed")
	require.Equal(t, control.CodeNotFound, c.call(control.OpDropRegion, &control.RegionID{ID: 2}, &control.Empty{}).Code)
	require.Nil(t, create(1))
	c.close()
	r.settled(before)
	r.until("charges are refunded", func() bool { return r.charged(nic.Cost{}) })
}

// All clients together map no more address space than there is.
func TestAddressSpaceIsShared(t *testing.T) {
	r := newRig(t, engine.Config{})
	r.bound(nic.Bounds{Addresses: 4 * shm.PageSize})
	path := r.serve()
	before := holdings(t)
	c := r.dial(path)
	c.hello()
	c.region(0x10000, 1)
	for _, size := range []uint64{2 * shm.PageSize, shm.MaxRegion / 2} {
		refusal := c.call(control.OpCreateRegion, &control.RegionSize{Size: size}, &control.RegionID{})
		require.Equal(t, control.CodeLimit, refusal.Code)
		require.Contains(t, refusal.Text, fmt.Sprintf("asks for %d more", size))
	}
	c.region(0x20000, shm.PageSize)
	c.close()
	r.settled(before)
	r.until("charges are refunded", func() bool { return r.charged(nic.Cost{}) })
}

// Only the server sends descriptors. If a client sends a descriptor, the descriptor is closed and
// the connection ends.
func TestClientsSendNoDescriptors(t *testing.T) {
	r := newRig(t, engine.Config{})
	path := r.serve()
	before := holdings(t)
	for _, n := range []int{1, 2, 12, 13, 200} {
		c := r.dial(path)
		c.hello()
		fds := make([]int, n)
		for i := range fds {
			fds[i] = int(os.Stdin.Fd())
		}
		oob := unix.UnixRights(fds...)
		_, _, err := c.conn.WriteMsgUnix(control.Append(nil, control.OpAllocPD, 0, 1, &control.Empty{}), oob, nil)
		if err == nil { // a kernel without SO_PASSRIGHTS
			c.ended()
		} else {
			require.ErrorIs(t, err, unix.EPERM)
		}
		c.close()
		r.settled(before)
	}
}

// With Populate all pages of a region exist before its client has the region.
func TestPopulate(t *testing.T) {
	resident := func(populate bool) (n int) {
		r := newRig(t, engine.Config{Populate: populate})
		c := r.dial(r.serve())
		c.hello()
		_, mem := c.newRegion(64 * shm.PageSize)
		var st unix.Stat_t
		require.NoError(t, unix.Fstat(int(mem.File().Fd()), &st))
		return int(st.Blocks * 512 / shm.PageSize)
	}
	require.Zero(t, resident(false))
	require.Equal(t, 64, resident(true))
}
