package verbs

import (
	"fmt"
	"os"
	"testing"

	"github.com/nicless/nicless/verbs/internal/nldev"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// A nlRig is a socket of NETLINK_RDMA as a program has it.
type nlRig struct {
	testing.TB
	s    *Server
	file *os.File
	port uint32
	seq  uint32
}

// netlink opens a socket and binds it, as the shim does.
func (r *rig) netlink(port uint32) *nlRig {
	r.Helper()
	h, body, files := r.request(opNetlink, 0, u32s(netlinkOpen, 0))
	require.Zero(r, h.error)
	require.Equal(r, u32s(netlinkOpen, 0), body)
	require.Len(r, files, 1)
	n := &nlRig{TB: r, s: r.s, file: files[0], port: port, seq: 100}
	r.Cleanup(func() { _ = n.file.Close() })
	if port != 0 {
		name := fmt.Sprintf("%s=%s%08x", netlinkName, r.s.netlink.tag, port)
		require.NoError(r, unix.Bind(n.fd(), &unix.SockaddrUnix{Name: name}))
	}
	return n
}

func (n *nlRig) fd() int { return int(n.file.Fd()) }

// socket returns the server's side.
func (n *nlRig) socket() *netlinkSocket {
	cookie, err := cookieOf(n.file)
	require.NoError(n, err)
	n.s.netlink.mu.Lock()
	defer n.s.netlink.mu.Unlock()
	return n.s.netlink.all[cookie]
}

// option sets an option, or gets it.
func (r *rig) option(n *nlRig, option, value uint32) (uint32, unix.Errno) {
	r.Helper()
	copies := duplicated(r, []*os.File{n.file})
	defer closeFiles(copies...)
	h, body, _ := r.request(opNetlink, 0, u32s(option, value), copies...)
	if h.error != 0 {
		return 0, unix.Errno(h.error)
	}
	return le.Uint32(body[4:]), 0
}

// attr returns the bytes of an attribute of a request.
func nlAttr(kind uint16, value ...byte) []byte {
	b := le.AppendUint16(le.AppendUint16(nil, uint16(4+len(value))), kind)
	b = append(b, value...)
	return append(b, make([]byte, (4-len(b)%4)%4)...)
}

func nlAttr32(kind uint16, v uint32) []byte { return nlAttr(kind, u32s(v)...) }

const nlFlagsGet, nlFlagsDump = nldev.FlagRequest | nldev.FlagAck, nldev.FlagRequest | nldev.FlagAck | nldev.FlagDump

// send sends a request of NLDEV.
func (n *nlRig) send(cmd int, flags uint16, attrs ...[]byte) {
	n.Helper()
	n.seq++
	n.sendRaw(n.message(uint16(5<<10|cmd), flags, attrs...))
}

func (n *nlRig) message(kind, flags uint16, attrs ...[]byte) (b []byte) {
	b = append(u32s(0), le.AppendUint16(le.AppendUint16(nil, kind), flags)...)
	b = append(b, u32s(n.seq, 0)...)
	for _, a := range attrs {
		b = append(b, a...)
	}
	le.PutUint32(b, uint32(len(b)))
	return b
}

func (n *nlRig) sendRaw(b []byte) {
	n.Helper()
	_, err := unix.SendmsgN(n.fd(), b, nil, nil, unix.MSG_NOSIGNAL)
	require.NoError(n, err)
}

// A nlMessage is a message of an answer. Attributes have lists of values, by number.
type nlMessage struct {
	kind, flags uint16
	seq, pid    uint32
	errno       unix.Errno // of an acknowledgement or the end of a dump
	text        string     // of an acknowledgement
	attrs       nlAttrs
}

type nlAttrs map[int][][]byte

func (a nlAttrs) u32(kind int) uint32 { return le.Uint32(a[kind][0]) }
func (a nlAttrs) u64(kind int) uint64 { return le.Uint64(a[kind][0]) }
func (a nlAttrs) text(kind int) string {
	return string(a[kind][0][:len(a[kind][0])-1])
}

// nested returns the attributes in each attribute of a kind.
func (a nlAttrs) nested(t testing.TB, kind int) (all []nlAttrs) {
	for _, b := range a[kind] {
		all = append(all, parseNL(t, b))
	}
	return all
}

// parseNL parses attributes, which must be well formed.
func parseNL(t testing.TB, b []byte) nlAttrs {
	t.Helper()
	all := make(nlAttrs)
	for len(b) > 0 {
		require.GreaterOrEqual(t, len(b), 4)
		size, kind := int(le.Uint16(b)), int(le.Uint16(b[2:])&0x3fff)
		require.GreaterOrEqual(t, size, 4)
		require.GreaterOrEqual(t, len(b), (size+3)&^3)
		all[kind] = append(all[kind], b[4:size])
		b = b[(size+3)&^3:]
	}
	return all
}

const nlError, nlDone, nlOverrun = 2, 3, 4

// parseNLMessages parses a datagram, which must be well formed and, except for an acknowledgement with the
// whole request, must fit where programs read.
func parseNLMessages(t testing.TB, b []byte) (all []nlMessage) {
	t.Helper()
	if len(b) > 4096 {
		require.Equal(t, uint16(nlError), le.Uint16(b[4:]))
	}
	for len(b) > 0 {
		require.GreaterOrEqual(t, len(b), nldev.HeaderSize)
		size := int(le.Uint32(b))
		require.GreaterOrEqual(t, size, nldev.HeaderSize)
		require.GreaterOrEqual(t, len(b), size)
		m := nlMessage{kind: le.Uint16(b[4:]), flags: le.Uint16(b[6:]), seq: le.Uint32(b[8:]), pid: le.Uint32(b[12:])}
		body := b[nldev.HeaderSize:size]
		switch m.kind {
		case nlError:
			m.errno = unix.Errno(-int32(le.Uint32(body)))
			if m.flags&0x200 != 0 {
				quoted := nldev.HeaderSize
				if m.flags&0x100 == 0 {
					quoted = int(le.Uint32(body[4:]))
				}
				m.text = parseNL(t, body[4+(quoted+3)&^3:]).text(1)
			}
		case nlDone:
			m.errno = unix.Errno(-int32(le.Uint32(body)))
		default:
			m.attrs = parseNL(t, body)
		}
		all = append(all, m)
		b = b[min(len(b), (size+3)&^3):]
	}
	return all
}

// receive reads a datagram.
func (n *nlRig) receive() []nlMessage {
	n.Helper()
	b := make([]byte, 1<<16)
	count, _, err := unix.Recvfrom(n.fd(), b, 0)
	require.NoError(n, err)
	require.NotZero(n, count, "the server has ended the socket")
	return parseNLMessages(n, b[:count])
}

// answer reads until the acknowledgement of a request or the end of a dump, which is the last message.
func (n *nlRig) answer() (all []nlMessage) {
	n.Helper()
	for {
		for _, m := range n.receive() {
			require.Equal(n, n.seq, m.seq)
			require.Equal(n, n.port, m.pid)
			all = append(all, m)
			if m.kind == nlError || m.kind == nlDone {
				return all
			}
		}
	}
}

// get makes a request that is answered by one message.
func (n *nlRig) get(cmd int, attrs ...[]byte) (nlAttrs, unix.Errno) {
	n.Helper()
	n.send(cmd, nlFlagsGet, attrs...)
	all := n.answer()
	if errno := all[len(all)-1].errno; errno != 0 {
		require.Len(n, all, 1)
		return nil, errno
	}
	require.LessOrEqual(n, len(all), 2)
	return all[0].attrs, 0
}

// table dumps the resources of the first device and returns their entries.
func (n *nlRig) table(cmd, table, entry int, attrs ...[]byte) (entries []nlAttrs) {
	n.Helper()
	n.send(cmd, nlFlagsDump, append([][]byte{nlAttr32(nldev.AttrDevIndex, 0)}, attrs...)...)
	for _, m := range n.answer() {
		if m.kind == nlDone {
			require.Zero(n, m.errno)
			continue
		}
		require.Equal(n, uint16(2), m.flags)
		for _, t := range m.attrs.nested(n, table) {
			entries = append(entries, t.nested(n, entry)...)
		}
	}
	return entries
}
