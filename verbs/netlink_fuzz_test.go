package verbs

import (
	"bufio"
	"encoding/hex"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/nicless/nicless/internal/await"
	"github.com/nicless/nicless/verbs/internal/abi"
	"github.com/nicless/nicless/verbs/internal/nldev"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// The server answers whatever a program sends to a socket of NETLINK_RDMA with messages that are well formed,
// and then still answers a right request. The input is one byte with options, and datagrams: each is two
// bytes with a length, and so many bytes.
func FuzzNetlink(f *testing.F) {
	files, err := filepath.Glob("internal/nldev/testdata/*.hex")
	require.NoError(f, err)
	for _, name := range files {
		list, err := os.Open(name)
		require.NoError(f, err)
		for lines := bufio.NewScanner(list); lines.Scan(); {
			b, err := hex.DecodeString(lines.Text())
			require.NoError(f, err)
			f.Add(append([]byte{3, byte(len(b)), 0}, b...))
		}
		require.NoError(f, list.Close())
	}
	s := newServing(f)
	s.log = slog.New(slog.DiscardHandler)
	f.Fuzz(func(t *testing.T, input []byte) {
		r := s.rig(t)
		p := r.program()
		cq := p.ok(p.createCQ(15, 0)).value[abi.AttrCreateCQHandle]
		p.ok(p.createQP(abi.QPTRC, cq))
		options := byte(0)
		if len(input) > 0 {
			options, input = input[0], input[1:]
		}
		if options&4 != 0 {
			r.p.uid = 12345
		}
		n := r.netlink(5)
		for _, o := range []uint32{unix.NETLINK_CAP_ACK, unix.NETLINK_EXT_ACK} {
			_, errno := r.option(n, o, uint32(options&1))
			require.Zero(t, errno)
			options >>= 1
		}
		for range mostCalls {
			if len(input) < 2 {
				break
			}
			size := int(le.Uint16(input))
			input = input[2:]
			datagram := input[:min(size, len(input))]
			input = input[len(datagram):]
			if err := unix.Send(n.fd(), datagram, unix.MSG_NOSIGNAL|unix.MSG_DONTWAIT); err != nil {
				require.Equal(t, unix.EAGAIN, err)
			}
			n.drain()
		}
		n.last(t)
	})
}

// drain reads the answers that are there.
func (n *nlRig) drain() {
	b := make([]byte, 1<<16)
	for {
		count, _, err := unix.Recvfrom(n.fd(), b, unix.MSG_DONTWAIT)
		if err != nil {
			require.Equal(n, unix.EAGAIN, err)
			return
		}
		parseNLMessages(n, b[:count])
	}
}

// last makes a request that only it makes, and waits for the answer.
func (n *nlRig) last(t *testing.T) {
	n.seq = 0xfffffff0
	await.Until(t, "the server takes the request", func() bool {
		n.drain()
		return unix.Send(n.fd(), n.message(5<<10|nldev.CmdSysGet, nldev.FlagRequest), unix.MSG_NOSIGNAL|unix.MSG_DONTWAIT) == nil
	})
	for {
		for _, m := range n.receive() {
			if m.seq == n.seq && m.kind == 5<<10|nldev.CmdSysGet {
				return
			}
		}
	}
}
