package verbs

import (
	"testing"

	"github.com/nicless/nicless/verbs/internal/abi"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// happened returns the unread events of a program, by element and type.
func (p *program) happened() (all [][2]uint64) {
	p.Helper()
	for {
		var b [abi.AsyncEventDescSize]byte
		n, _, err := unix.Recvfrom(int(p.files[p.async].Fd()), b[:], unix.MSG_DONTWAIT)
		if err != nil || n != len(b) {
			return all
		}
		all = append(all, [2]uint64{le.Uint64(b[abi.AsyncEventDescElement:]), uint64(le.Uint32(b[abi.AsyncEventDescEventType:]))})
	}
}

// An address that comes or goes in a namespace is an event to all contexts there whose ports have its GID.
func TestAddressesAreEvents(t *testing.T) {
	s := newServing(t)
	s.devices = []*device{
		newDevice(0, "nicless0", 0x5a4e4cfffe000001, pciPlace{}).linked(Ethernet, firstLID),
		newDevice(1, "nicless1", 0x5a4e4cfffe000001, pciPlace{}).linked(InfiniBand, firstLID),
	}
	r := s.rig(t)
	r.tell("eth0", "192.0.2.1/24")
	p := r.program()
	infiniBand := &program{rig: r}
	infiniBand.ctx, infiniBand.socket = r.open(1)
	infiniBand.async = r.ok(r.allocAsync(infiniBand.ctx)).value[abi.AttrAsyncEventAllocFDHandle]
	elsewhere := s.rig(t).program()

	changed := [][2]uint64{{1, abi.EventGIDChange}}
	require.Empty(t, p.happened())
	r.tell("eth0", "192.0.2.1/24")
	require.Empty(t, p.happened(), "nothing has changed")
	r.tell("eth0", "192.0.2.1/24", "eth0", "2001:db8::5/64")
	require.Equal(t, changed, p.happened(), "an address came")
	r.tell("eth0", "2001:db8::5/64")
	require.Equal(t, changed, p.happened(), "an address went")
	require.Empty(t, infiniBand.happened(), "its GID is made from its GUID")
	require.Empty(t, elsewhere.happened(), "another namespace")
}
