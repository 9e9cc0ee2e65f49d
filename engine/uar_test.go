package engine

import (
	"testing"

	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/engine/internal/quota"
	"github.com/nicless/nicless/internal/await"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/internal/shm"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// Pages that are added come after the pages that the client had. Their user pays for them
// until the client ends.
func TestAddRegisters(t *testing.T) {
	r := newRig(t, Config{})
	c, err := r.d.nic().NewHosted("x", 7, nic.Hosted{UARPages: 4})
	require.NoError(t, err)
	before := r.e.Ledger.Has(7)
	first, one, err := c.AddRegisters(2)
	require.NoError(t, err)
	require.Equal(t, 4, first)
	first, two, err := c.AddRegisters(3)
	require.NoError(t, err)
	require.Equal(t, 6, first)
	require.Equal(t, before[quota.Descriptors]+2, r.e.Ledger.Has(7)[quota.Descriptors])
	_, _, err = c.UARPage("QP", 4)
	require.ErrorContains(t, err, "can still lose pages")
	for _, m := range []*shm.Region{c.UAR, one, two} {
		require.NoError(t, m.Seal())
	}
	for page, want := range map[uint16]struct {
		bank []byte
		at   uint64
	}{0: {c.UAR.Bytes(), 0}, 3: {c.UAR.Bytes(), 3 << 12}, 4: {one.Bytes(), 0}, 5: {one.Bytes(), 1 << 12}, 6: {two.Bytes(), 0}, 8: {two.Bytes(), 2 << 12}} {
		bank, at, err := c.UARPage("QP", page)
		require.NoError(t, err)
		require.Equal(t, want.at, at, "page %d", page)
		require.Same(t, &want.bank[0], &bank.Bytes()[0], "page %d", page)
	}
	_, _, err = c.Request(control.OpCreateCQ, control.Append(nil, control.OpCreateCQ, 0, 0, &control.CQ{LogCQE: 6, UAR: 9})[control.HeaderSize:], object.RequestMemory{})
	require.ErrorContains(t, err, "CQ: UAR page 9; there are 9")
	require.NoError(t, c.Close())
	require.Zero(t, r.e.Ledger.Users(), "all of it has come back")
	_, _, err = c.AddRegisters(1)
	require.ErrorIs(t, err, object.ErrClosed)
}

// Memory into which its user can punch holes is sealed before it is unmapped. Unmapping
// waits for a hole that is being made, and the whole process waits with it.
func TestUnsealedMemoryIsReleased(t *testing.T) {
	r := newRig(t, Config{})
	mem, err := r.d.nic().NewMemory(7, "x", 1<<16, shm.Create)
	require.NoError(t, err)
	fd, err := unix.FcntlInt(mem.File().Fd(), unix.F_DUPFD_CLOEXEC, 0) // the user's descriptor
	require.NoError(t, err)
	defer unix.Close(fd)
	r.d.nic().FreeMemory(7, mem)
	await.Until(t, "all charges are refunded", func() bool { return r.e.Ledger.Has(7) == quota.Charge{} })
	seals, err := unix.FcntlInt(uintptr(fd), unix.F_GET_SEALS, 0)
	require.NoError(t, err)
	require.NotZero(t, seals&unix.F_SEAL_FUTURE_WRITE)
}

// If the user of memory has prevented its sealing, the memory is never unmapped, and stays
// on the user's charge.
func TestMemoryThatCannotBeSealedStays(t *testing.T) {
	r := newRig(t, Config{})
	mem, err := r.d.nic().NewMemory(7, "x", 1<<16, shm.Create)
	require.NoError(t, err)
	_, err = unix.FcntlInt(mem.File().Fd(), unix.F_ADD_SEALS, unix.F_SEAL_SEAL)
	require.NoError(t, err)
	addr := mem.Addr()
	r.d.nic().FreeMemory(7, mem)
	closed := make(chan struct{})
	r.e.Discard(7, 0, func() { close(closed) }) // is discarded after the memory
	<-closed
	require.Equal(t, addr, mem.Addr())
	require.Equal(t, 1, r.e.Ledger.Has(7)[quota.Mappings])
	// Nobody closes mem: a slow closer may still have it, while another one has made the second call.
}
