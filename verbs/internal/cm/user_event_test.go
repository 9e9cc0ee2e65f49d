//go:build linux && (amd64 || arm64)

package cm

import (
	"testing"

	"github.com/nicless/nicless/verbs/internal/abi"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func writeEventRequest(handle uint32, kind eventKind, status int32, arg uint64) []byte {
	req := make([]byte, writeEventSize)
	le.PutUint32(req, handle)
	le.PutUint32(req[writeEventEvent:], uint32(kind))
	le.PutUint32(req[writeEventStatus:], uint32(status))
	le.PutUint64(req[writeEventArg:], arg)
	return req
}

// An event that a program writes comes back in its place among the other events of the channel.
func TestWrittenEvents(t *testing.T) {
	r := newRig(t)
	f := r.host("10.0.0.1").open()
	h := f.create(abi.CMPSTCP, 7)
	f.ok(cmdWriteEvent, 0, writeEventRequest(h, userEvent, -5, 0x1122334455667788))
	f.ok(abi.CMCmdResolveAddr, 0, resolveRequest(h, sockaddr{}, inet("127.0.0.1", 1)))
	f.ok(cmdWriteEvent, 0, writeEventRequest(h, internalEvent, 0, 16))
	require.Equal(t, uint64(0x1122334455667788), le.Uint64(f.expect(userEvent, 7, -5)[abi.CMEventRespParam:]))
	f.expect(addrResolved, 7, 0)
	require.Equal(t, uint64(16), le.Uint64(f.expect(internalEvent, 7, 0)[abi.CMEventRespParam:]))
	f.quiet()
	require.EqualValues(t, 3, f.destroy(h), "events that were read")
	f.close()
	r.ends()
}

func TestWrittenEventsThatAreRefused(t *testing.T) {
	r := newRig(t)
	f, other := r.host("10.0.0.1").open(), r.host("10.0.0.2").open()
	h := f.create(abi.CMPSTCP, 7)
	write := func(f *file, req []byte) unix.Errno {
		errno, _ := f.call(cmdWriteEvent, 0, req)
		return errno
	}
	require.Equal(t, unix.EINVAL, write(f, writeEventRequest(h, established, 0, 0)), "an event of the device's own")
	require.Equal(t, unix.EINVAL, write(f, writeEventRequest(h, internalEvent, 0, 0)[:writeEventSize-1]))
	require.Equal(t, unix.ENOENT, write(f, writeEventRequest(h+1, userEvent, 0, 0)))
	require.Equal(t, unix.EINVAL, write(other, writeEventRequest(h, userEvent, 0, 0)), "of another program")
	for range maxEvents {
		f.ok(cmdWriteEvent, 0, writeEventRequest(h, userEvent, 0, 0))
	}
	require.Equal(t, unix.ENOMEM, write(f, writeEventRequest(h, userEvent, 0, 0)))
	require.Equal(t, maxEvents, f.tokens)
	f.expect(userEvent, 7, 0)
	require.Zero(t, write(f, writeEventRequest(h, userEvent, 0, 0)), "after one was read")
	f.close()
	other.close()
	r.ends()
}

// There are no services to resolve, on an id that is bound to a device or not.
func TestResolveService(t *testing.T) {
	r := newRig(t)
	f := r.host("10.0.0.1").open()
	h := f.create(abi.CMPSTCP, 1)
	req := make([]byte, resolveServiceSize)
	le.PutUint32(req, h)
	errno, _ := f.call(cmdResolveService, 0, req)
	require.Equal(t, unix.EINVAL, errno)
	require.Zero(t, f.bind(h, inet("10.0.0.1", 0)))
	errno, _ = f.call(cmdResolveService, 0, req)
	require.Equal(t, unix.EOPNOTSUPP, errno)
	f.close()
	r.ends()
}
