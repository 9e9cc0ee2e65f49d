//go:build linux && (amd64 || arm64)

package cm

import (
	"testing"

	"github.com/nicless/nicless/verbs/internal/abi"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// Writes to a channel are refused with the kernel's numbers.
func TestGarbage(t *testing.T) {
	r := newRig(t)
	f := r.host("10.0.0.1").open()
	for _, c := range []struct {
		written []byte
		errno   unix.Errno
	}{
		{nil, unix.EINVAL},
		{make([]byte, 7), unix.EINVAL},
		{hdr(abi.CMCmdJoinMcast+1, 0, 0), unix.EINVAL},
		{hdr(^uint32(0), 0, 0), unix.EINVAL},
		{hdr(abi.CMCmdGetOption, 0, 0), unix.ENOSYS},
		{hdr(abi.CMCmdListen, 8, 0), unix.EINVAL},                                 // fewer bytes than it says
		{append(hdr(abi.CMCmdListen, 4, 0), words(1)...), unix.EINVAL},            // short
		{append(hdr(abi.CMCmdListen, 8, 0), words(99, 1)...), unix.ENOENT},        // no such id
		{append(hdr(abi.CMCmdCreateID, 24, 3), make([]byte, 24)...), unix.ENOSPC}, // no room for the answer
		{append(hdr(abi.CMCmdCreateID, 24, 4), make([]byte, 24)...), unix.EINVAL}, // no such port space
	} {
		errno, _ := f.write(c.written)
		require.Equal(t, c.errno, errno, "%x", c.written)
	}
	other := r.host("10.0.0.2").open()
	h := f.create(abi.CMPSTCP, 1)
	require.Equal(t, unix.EINVAL, other.listen(h, 1), "an id of another channel")
	f.close()
	require.Equal(t, unix.EBADF, f.listen(h, 1))
	other.close()
	r.ends()
}

// A user cannot take more than the user may have, and unread events are bounded.
func TestLimits(t *testing.T) {
	r := newRig(t)
	f := r.host("10.0.0.1").open()
	r.limit = r.cost.Memory + 10*idCost.Memory
	var last unix.Errno
	for range 20 {
		req := make([]byte, abi.CMCreateIDSize)
		le.PutUint16(req[abi.CMCreateIDPS:], abi.CMPSTCP)
		last, _ = f.call(abi.CMCmdCreateID, 4, req)
	}
	require.Equal(t, unix.ENOMEM, last)
	require.Len(t, r.m.ids, 10)
	r.limit = 0
	f.close()
	f = r.host("10.0.0.1").open()
	for range maxEvents + 10 {
		h := f.create(abi.CMPSTCP, 1)
		f.ok(abi.CMCmdResolveAddr, 0, resolveRequest(h, sockaddr{}, inet("127.0.0.1", 1)))
		f.m.ids[h].leavePort()
	}
	require.Equal(t, maxEvents, f.tokens)
	require.Len(t, f.ch.events, maxEvents)
	f.close()
	r.ends()
}

// mostCalls is how many writes or datagrams of an input are taken. Go's fuzzer takes an input for hung after
// 10 s, which on a busy machine may be a tenth of a second of a core.
const mostCalls = 256

// The manager answers whatever programs write, and nothing is left when they end. The input is
// a list of writes: the number of the file, the room for the answer, a length, and that many
// bytes.
func FuzzWrite(f *testing.F) {
	add := func(parts ...[]byte) {
		var all []byte
		for _, p := range parts {
			all = append(append(all, 0, byte(len(p)), byte(len(p)>>8)), p...)
		}
		f.Add(all)
	}
	create := make([]byte, abi.CMCreateIDSize)
	create[0] = 1
	le.PutUint16(create[abi.CMCreateIDPS:], abi.CMPSTCP)
	command := func(number uint32, room int, req []byte) []byte { return append(hdr(number, len(req), room), req...) }
	id := command(abi.CMCmdCreateID, 4, create)
	local := inet("127.0.0.1", 7000)
	event := command(abi.CMCmdGetEvent, 336, make([]byte, 8))
	accept := make([]byte, abi.CMAcceptSize)
	accept[0] = 9
	copy(accept[abi.CMAcceptConnParam:], params(1, "x"))
	le.PutUint32(accept[abi.CMAcceptID:], 2)
	add(id, id, command(abi.CMCmdBind, 0, bindRequest(0, local)), command(abi.CMCmdListen, 0, words(0, 5)),
		command(abi.CMCmdResolveAddr, 0, resolveRequest(1, sockaddr{}, local)), command(abi.CMCmdResolveRoute, 0, words(1, 1)),
		command(abi.CMCmdConnect, 0, connectRequestOf(1, params(1, "x"))), event, event, event, command(abi.CMCmdAccept, 0, accept),
		command(abi.CMCmdInitQPAttr, 144, words(0, 0, 2, 2)), command(abi.CMCmdDisconnect, 0, words(1)), command(abi.CMCmdDestroyID, 4, words(0, 0, 0, 0)))
	for number := range uint32(abi.CMCmdJoinMcast + 1) {
		if commands[number] != nil {
			add(id, command(number, 400, make([]byte, commands[number].known)))
		}
	}
	for _, name := range goldenFiles(f) { // what real programs wrote
		var all []byte
		for _, w := range goldenWrites(f, name) {
			all = append(append(all, w.file[0], byte(len(w.bytes)), byte(len(w.bytes)>>8)), w.bytes...)
		}
		f.Add(all)
	}
	f.Fuzz(func(t *testing.T, input []byte) {
		r := newRig(t)
		files := []*file{r.host("10.0.0.1").open(), r.host("10.0.0.2").open()}
		files = append(files, files[0].host.open())
		for range mostCalls {
			if len(input) < 3 {
				break
			}
			who, n := files[int(input[0])%len(files)], int(le.Uint16(input[1:]))
			input = input[3:]
			b := input[:min(n, len(input), MaxWrite)]
			input = input[len(b):]
			var results []Result
			for range 8 {
				c := &Call{Program: who.program, Channel: who.ch, Written: b, Results: results}
				if err := r.m.Serve(c); err != ErrAgain {
					break
				}
				for _, need := range c.Needs {
					result := who.meet(need)
					result.Channel = files[need.Addr%uint64(len(files))].ch
					results = append(results, result)
				}
			}
			if len(input) > 0 && input[0] == 0xff {
				r.pass()
			}
		}
		r.indexed()
		for _, f := range files {
			f.close()
		}
		r.ends()
	})
}
