package verbs

import (
	"io"
	"log/slog"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Whatever a program sends, the server answers or ends the connection; it never
// panics, and what was made in between goes with the program. The input is
// datagrams: two bytes of length, one of operation, the body of that length.
func FuzzIoctl(f *testing.F) {
	seed := func(calls ...[]byte) {
		var all []byte
		for _, c := range calls {
			all = append(le.AppendUint16(all, uint16(len(c))), byte(opIoctl))
			all = append(all, c...)
		}
		f.Add(all)
	}
	call := func(object, method uint16, args ...arg) []byte {
		b := append(u64s(0), u32s(0, uint32(ioctlHeaderSize+attrSize*len(args)))...)
		return append(b, ioctlBytes(object, method, args...)...)
	}
	write := func(command uint64, req []byte, room int) []byte {
		return call(objDevice, 0, number(2, command), arg{id: 0, in: req}, arg{id: 1, out: room}, arg{id: uhwIn, in: u64s(0x1000, 64)}, arg{id: uhwOut, out: 104})
	}
	seed(call(objDevice, 2, number(0, 1), arg{id: 1, out: 48}), call(objDevice, 5, number(0, 32), arg{id: 2, out: 512}, arg{id: 3, out: 8}))
	seed(write(1, u64s(0), 176), write(extended|1, u64s(0), 304), write(3, u64s(0), 4), write(0x11, u64s(0), 4))
	seed(write(9, append(u64s(0, 0x10000, 4096, 0x10000), u32s(1, 15)...), 12), write(0xb, make([]byte, 48), 8), write(0xe, append(u64s(0), 1, 0, 0, 0, 2, 0, 0, 0), 8))
	seed(write(5, append(append(u64s(0, 0), u32s(1, 0)...), make([]byte, 32)...), 4), write(0x19, append(u64s(0), u32s(4, 0)...), 128))
	seed(write(0x1a, append(make([]byte, 64), append(u32s(4, 1|8|16|32), make([]byte, 40)...)...), 8), write(extended|0x1a, make([]byte, 120), 8))
	d := append(u64s(0x100000, 0x200000), u32s(64, 0, 0, 0)...)
	seed(call(objCQ, 0, arg{id: 0}, word(1, 15), arg{id: 2, in: u64s(1)}, word(4, 0), arg{id: 6, out: 4}, arg{id: uhwIn, in: d}, arg{id: uhwOut, out: 8}),
		write(0x13, append(u64s(0), u32s(3, 31)...), 8))
	seed(call(objUAR, 0x1000, arg{id: 0x1000}, number(0x1001, 0), arg{id: 0x1002, out: 8}, arg{id: 0x1003, out: 4}, arg{id: 0x1004, out: 4}),
		call(objAsyncEvent, 0, arg{id: 0}), call(objDevx, 0x1000, arg{id: 0x1000, in: make([]byte, 16)}, arg{id: 0x1001, out: 4112}))
	seed(call(objSRQ, 0, arg{id: 0}, arg{id: 1, data: 1}, arg{id: 4, in: u64s(1)}, word(5, 7), word(6, 1), word(7, 0), number(9, 0),
		arg{id: 11, out: 4}, arg{id: 12, out: 4}, arg{id: uhwIn, in: d}, arg{id: uhwOut, out: 8}))
	f.Add(append([]byte{32, 0, byte(opMmap)}, u64s(0x100000, 0x8000, 0x10f000, 0)...))
	f.Add(append([]byte{32, 0, byte(opAlloc)}, u64s(0x100000, 0x8000, 0, 0)...))
	f.Add(append([]byte{32, 0, byte(opFree)}, u64s(0x100000, 0x8000, 0, 0)...))
	f.Add(append([]byte{8, 0, byte(opOpen)}, u64s(1)...))

	s := newServing(f)
	s.log = slog.New(slog.NewTextHandler(io.Discard, &slog.HandlerOptions{Level: slog.LevelDebug}))
	fds, rounds := descriptors(f), 0
	f.Fuzz(func(t *testing.T, input []byte) {
		r := s.rig(t)
		p := r.program()
		cq := p.ok(p.createCQ(15, 0)).value[0]
		p.ok(p.createQP(2, cq))
		r.share(0x10000, 0x4000)
		for len(input) >= 3 {
			n := int(le.Uint16(input))
			op := wireOp(input[2])
			input = input[3:]
			body := input[:min(n, len(input))]
			input = input[len(body):]
			h := appendAnswer(nil, wireHeader{op: op, context: p.ctx}, 0, 0)
			le.PutUint16(h[2:], 0)
			answer, give, err := r.p.handle(finish(append(h, body...)), nil)
			_ = closeFiles(give...)
			if err != nil {
				break
			}
			require.LessOrEqual(t, len(answer), maxDatagram)
		}
		for _, x := range r.p.contexts {
			x.end()
		}
		r.p.end()
		require.Empty(t, s.contexts)
		require.Empty(t, r.p.memory.extents)
		require.Empty(t, r.p.pending)
		if rounds++; rounds%64 == 0 {
			require.Eventually(t, func() bool { return descriptors(t) < fds+64 }, 10*time.Second, time.Millisecond, "descriptors are left open")
		}
	})
}

func descriptors(t testing.TB) int {
	e, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	return len(e)
}
