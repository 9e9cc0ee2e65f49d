package verbs

import (
	"bufio"
	"encoding/hex"
	"os"
	"path/filepath"
	"testing"

	"github.com/nicless/nicless/internal/await"
	"github.com/nicless/nicless/verbs/internal/abi"
	"github.com/nicless/nicless/verbs/internal/nldev"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// Numbers of attributes here are those of enum rdma_nldev_attr.

// Devices and ports are those of the files that programs read otherwise.
func TestNetlinkDevices(t *testing.T) {
	r := newRig(t)
	n := r.netlink(77)
	n.send(nldev.CmdGet, nlFlagsDump)
	all := n.answer()
	require.Len(t, all, 3)
	require.Equal(t, uint16(nlDone), all[2].kind)
	files := r.s.files(r.s.nowhere)
	for i, d := range r.s.devices {
		a := all[i].attrs
		require.Equal(t, uint32(i), a.u32(1))
		require.Equal(t, d.name, a.text(2))
		require.Equal(t, uint32(1), a.u32(3))
		require.Equal(t, files[d.ibDir()+"/fw_ver"], a.text(5))
		require.Equal(t, d.guid, a.u64(6))
		require.Equal(t, []byte{1}, a[14][0])
		require.Equal(t, "roce", a.text(67))
		one, errno := n.get(nldev.CmdGet, nlAttr32(1, uint32(i)))
		require.Zero(t, errno)
		require.Equal(t, a, one)

		chardev, errno := n.get(nldev.CmdGetCharDev, nlAttr32(1, uint32(i)), nlAttr(69, append([]byte("uverbs"), 0)...))
		require.Zero(t, errno)
		require.Equal(t, uint64(0xe7c0+i), chardev.u64(72))
		require.Equal(t, uint32(1), chardev.u32(73))
		require.Equal(t, "uverbs"+itoa(i), chardev.text(70))
	}
	mads, errno := n.get(nldev.CmdGetCharDev, nlAttr32(1, 1), nlAttr32(3, 1), nlAttr(69, append([]byte("umad"), 0)...))
	require.Zero(t, errno)
	require.Equal(t, uint64(0xe701), mads.u64(72))
	require.Equal(t, "umad1", mads.text(70))
	manager, errno := n.get(nldev.CmdGetCharDev, nlAttr(69, append([]byte("rdma_cm"), 0)...))
	require.Zero(t, errno)
	require.Equal(t, uint64(10<<8|119), manager.u64(72))
	require.Equal(t, uint64(4), manager.u64(71))
	require.NotContains(t, manager, 73)
}

// A port has the interface that the reader's namespace has, and of InfiniBand its LID.
func TestNetlinkPorts(t *testing.T) {
	s := newServingWith(t, Config{NoDEVX: true, Links: []Link{Ethernet, InfiniBand}})
	r := s.rig(t)
	r.tell("eth3", "192.0.2.7/24")
	n := r.netlink(1)
	n.send(nldev.CmdPortGet, nlFlagsGet, nlAttr32(1, 0), nlAttr32(3, 1))
	all := n.answer()
	require.Equal(t, uint16(5<<10|nldev.CmdGet), all[0].kind, "as the kernel answers")
	require.Equal(t, uint32(5), all[0].attrs.u32(50))
	require.Equal(t, "eth3", all[0].attrs.text(51))
	require.Equal(t, []byte{abi.PortActive}, all[0].attrs[12][0])
	require.NotContains(t, all[0].attrs, 9)
	ib, errno := n.get(nldev.CmdPortGet, nlAttr32(1, 1), nlAttr32(3, 1))
	require.Zero(t, errno)
	require.Equal(t, uint32(s.devices[1].lid), ib.u32(9))
	require.Equal(t, uint32(subnetManagerLID), ib.u32(10))
	require.Equal(t, uint64(0xfe80)<<48, ib.u64(8))
	require.NotContains(t, ib, 51)
}

// Every request of real programs is answered, and only those that change something are refused.
func TestNetlinkRequestsOfPrograms(t *testing.T) {
	r := newRig(t)
	files, err := filepath.Glob("internal/nldev/testdata/*.hex")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, name := range files {
		f, err := os.Open(name)
		require.NoError(t, err)
		n := r.netlink(0)
		n.seq = 1
		for lines := bufio.NewScanner(f); lines.Scan(); {
			b, err := hex.DecodeString(lines.Text())
			require.NoError(t, err)
			b[6] |= nldev.FlagAck
			n.sendRaw(b)
			all := n.answer()
			last, cmd := all[len(all)-1], int(le.Uint16(b[4:])&0x3ff)
			require.Contains(t, append(netlinkErrnos[cmd], 0), last.errno, "command %d: %x", cmd, b)
			if netlinkCommands[cmd].why != "" {
				require.Equal(t, eOPNOTSUPP, last.errno)
			}
		}
		require.NoError(t, f.Close())
	}
}

// netlinkErrnos are the errors of the requests of programs: of those that change something, or ask for one
// resource that is not there, at first without a port.
var netlinkErrnos = map[int][]unix.Errno{nldev.CmdSet: {eOPNOTSUPP}, nldev.CmdSysSet: {eOPNOTSUPP},
	nldev.CmdStatSet: {eOPNOTSUPP}, nldev.CmdStatDel: {eOPNOTSUPP}, nldev.CmdNewDev: {eOPNOTSUPP},
	nldev.CmdResQPGet: {eINVAL, eNOENT}, nldev.CmdStatGet: {eINVAL, eNOENT}, nldev.CmdStatGetStatus: {eINVAL},
	nldev.CmdResQPGetRaw: {eINVAL}, nldev.CmdResCQGetRaw: {eINVAL}, nldev.CmdResMRGetRaw: {eINVAL}}

// Requests that are wrong are refused with the kernel's errno.
func TestNetlinkErrnos(t *testing.T) {
	r := newRig(t)
	n := r.netlink(5)
	text := func(s string) []byte { return nlAttr(69, append([]byte(s), 0)...) }
	index, port := nlAttr32(1, 0), nlAttr32(3, 1)
	for _, c := range []struct {
		name  string
		cmd   int
		attrs [][]byte
		want  unix.Errno
	}{
		{"no device", nldev.CmdGet, nil, eINVAL},
		{"unknown device", nldev.CmdGet, [][]byte{nlAttr32(1, 9)}, eINVAL},
		{"short index", nldev.CmdGet, [][]byte{nlAttr(1, 1)}, eINVAL},
		{"port 0", nldev.CmdPortGet, [][]byte{index, nlAttr32(3, 0)}, eINVAL},
		{"port 2", nldev.CmdPortGet, [][]byte{index, nlAttr32(3, 2)}, eINVAL},
		{"unknown attribute", nldev.CmdSysGet, [][]byte{nlAttr32(300, 2)}, eINVAL},
		{"no kind", nldev.CmdGetCharDev, [][]byte{index}, eINVAL},
		{"unknown kind", nldev.CmdGetCharDev, [][]byte{index, text("fpga")}, eOPNOTSUPP},
		{"uverbs without a device", nldev.CmdGetCharDev, [][]byte{text("uverbs")}, eOPNOTSUPP},
		{"uverbs with a port", nldev.CmdGetCharDev, [][]byte{index, port, text("uverbs")}, eINVAL},
		{"a port without a device", nldev.CmdGetCharDev, [][]byte{port, text("uverbs")}, eINVAL},
		{"rdma_cm with a device", nldev.CmdGetCharDev, [][]byte{index, text("rdma_cm")}, eOPNOTSUPP},
		{"QP without a port", nldev.CmdResQPGet, [][]byte{index, nlAttr32(21, 5)}, eINVAL},
		{"QP that is not there", nldev.CmdResQPGet, [][]byte{index, port, nlAttr32(21, 5)}, eNOENT},
		{"CQ with a port", nldev.CmdResCQGet, [][]byte{index, port, nlAttr32(61, 5)}, eINVAL},
		{"CQ that is not there", nldev.CmdResCQGet, [][]byte{index, nlAttr32(61, 5)}, eNOENT},
		{"no number", nldev.CmdResMRGet, [][]byte{index}, eINVAL},
		{"a raw dump of a driver", nldev.CmdResQPGetRaw, [][]byte{index, port, nlAttr32(21, 5)}, eINVAL},
		{"a command of no use", 8, nil, eINVAL},
		{"an event", nldev.CmdMonitor, nil, eINVAL},
		{"too great a command", nldev.NumCmds, nil, eINVAL},
		{"rename", nldev.CmdSet, [][]byte{index}, eOPNOTSUPP},
	} {
		_, errno := n.get(c.cmd, c.attrs...)
		require.Equal(t, c.want, errno, c.name)
	}
	n.sendRaw(n.message(4<<10|1, nlFlagsGet)) // of another client, RDMA_NL_LS
	require.Equal(t, eINVAL, n.answer()[0].errno)
	n.sendRaw(n.message(5<<10|nldev.CmdSysGet, nlFlagsDump)) // has no dump
	require.Equal(t, eINVAL, n.answer()[0].errno)
	// A message that asks for nothing is only acknowledged, and of others the rest is ignored.
	n.sendRaw(append(n.message(5<<10|nldev.CmdGet, nldev.FlagAck), 0, 1, 2))
	require.Equal(t, []nlMessage{{kind: nlError, flags: 0x100, seq: n.seq, pid: 5}}, n.answer())
	n.sendRaw(n.message(3, nlFlagsGet))
	require.Zero(t, n.answer()[0].errno)
}

// A program that the kernel would not let change devices gets its errno, before anything is parsed. It sees
// no other user's resources and no keys.
func TestNetlinkRights(t *testing.T) {
	s := newServing(t)
	mine, other := s.rig(t), s.rig(t)
	mine.program().smallMR()
	mrs := mine.netlink(5).table(nldev.CmdResMRGet, 40, 41)
	require.Len(t, mrs, 1)
	require.Contains(t, mrs[0], 42)

	other.p.uid = 12345 // the user of all that it makes from now on
	n := other.netlink(6)
	require.Empty(t, n.table(nldev.CmdResMRGet, 40, 41))
	summary, errno := n.get(nldev.CmdResGet, nlAttr32(1, 0))
	require.Zero(t, errno)
	for _, item := range summary.nested(t, 15)[0].nested(t, 16) {
		require.Zero(t, item.u64(18), item.text(17))
	}
	for cmd, c := range netlinkCommands {
		if c.admin {
			_, errno := n.get(cmd, nlAttr(1))
			require.Equal(t, ePERM, errno, "command %d", cmd)
		}
	}
	other.program().smallMR()
	mrs = n.table(nldev.CmdResMRGet, 40, 41)
	require.Len(t, mrs, 1)
	require.NotContains(t, mrs[0], 42)
	require.NotContains(t, mrs[0], 43)
	require.Len(t, mine.netlink(7).table(nldev.CmdResMRGet, 40, 41), 2, "the server's user sees both")
}

// Options change what acknowledgements have.
func TestNetlinkOptions(t *testing.T) {
	r := newRig(t)
	n := r.netlink(9)
	ask := func() nlMessage {
		n.send(nldev.CmdSysGet, nlFlagsGet, nlAttr32(300, 1))
		return n.answer()[0]
	}
	require.Equal(t, nlMessage{kind: nlError, seq: 101, pid: 9, errno: eINVAL}, ask())
	for _, option := range []uint32{unix.NETLINK_CAP_ACK, unix.NETLINK_EXT_ACK} {
		_, errno := r.option(n, option, 1)
		require.Zero(t, errno)
		is, _ := r.option(n, netlinkGet|option, 0)
		require.Equal(t, uint32(1), is)
	}
	require.Equal(t, nlMessage{kind: nlError, flags: 0x300, seq: 102, pid: 9, errno: eINVAL,
		text: "Unknown attribute type"}, ask())
	_, errno := r.option(n, unix.NETLINK_CAP_ACK, 0)
	require.Zero(t, errno)
	require.Equal(t, "Unknown attribute type", ask().text)

	_, errno = r.option(n, unix.NETLINK_ADD_MEMBERSHIP, 33)
	require.Equal(t, eINVAL, errno)
	_, errno = r.option(n, unix.NETLINK_ADD_MEMBERSHIP, 0)
	require.Equal(t, eINVAL, errno)
	_, errno = r.option(n, unix.NETLINK_ADD_MEMBERSHIP, 32)
	require.Zero(t, errno)
	_, errno = r.option(n, netlinkGroups, 1<<3)
	require.Zero(t, errno)
	groups, _ := r.option(n, netlinkGet|netlinkGroups, 0)
	require.Equal(t, uint32(1<<31|1<<3), groups)
	_, errno = r.option(n, unix.NETLINK_DROP_MEMBERSHIP, 32)
	require.Zero(t, errno)
	groups, _ = r.option(n, netlinkGet|unix.NETLINK_LIST_MEMBERSHIPS, 0)
	require.Equal(t, uint32(1<<3), groups)
	for _, unknown := range []uint32{13, 31, 32, 0xffff, netlinkGet | 40, 0x80000000} {
		_, errno = r.option(n, unknown, 1)
		require.Equal(t, unix.ENOPROTOOPT, errno, "option %#x", unknown)
	}
	other, _ := os.Open(os.DevNull)
	h, _, _ := r.request(opNetlink, 0, u32s(unix.NETLINK_CAP_ACK, 1), duplicated(r, []*os.File{other})...)
	require.Equal(t, int32(unix.ENOTSOCK), h.error)
	h, _, _ = r.request(opNetlink, 0, u32s(unix.NETLINK_CAP_ACK, 1))
	require.Equal(t, int32(eBADF), h.error)
	require.NoError(t, other.Close())
}

// A socket ends when its last copy is closed, and its user is not charged any more.
func TestNetlinkEnds(t *testing.T) {
	r := newRig(t)
	n := r.netlink(5)
	dup, err := duplicates([]*os.File{n.file})
	require.NoError(t, err)
	require.NoError(t, n.file.Close())
	n.file = dup[0]
	_, errno := n.get(nldev.CmdSysGet)
	require.Zero(t, errno)
	require.NoError(t, n.file.Close())
	await.Until(t, "the server forgets the socket", func() bool {
		r.s.netlink.mu.Lock()
		defer r.s.netlink.mu.Unlock()
		return len(r.s.netlink.all) == 0
	})
}

// A program that shuts its end down for sending, and keeps it open, has no socket any more: the server does
// not ask again and again what has come.
func TestNetlinkShutdown(t *testing.T) {
	r := newRig(t)
	n := r.netlink(5)
	require.NoError(t, unix.Shutdown(n.fd(), unix.SHUT_WR))
	await.Until(t, "the server forgets the socket", func() bool {
		r.s.netlink.mu.Lock()
		defer r.s.netlink.mu.Unlock()
		return len(r.s.netlink.all) == 0
	})
}

// A user can have many sockets, and not all that there are; the errno is the kernel's.
func TestNetlinkManySockets(t *testing.T) {
	r := newRig(t)
	var all []*os.File
	for range 10000 {
		h, _, files := r.request(opNetlink, 0, u32s(netlinkOpen, 0))
		if h.error != 0 {
			require.Contains(t, []int32{int32(unix.ENOBUFS), int32(unix.ENFILE)}, h.error)
			break
		}
		all = append(all, files...)
	}
	require.Less(t, len(all), 10000)
	require.Greater(t, len(all), 64)
	t.Logf("%d sockets", len(all))
	for _, f := range all {
		require.NoError(t, f.Close())
	}
	await.Until(t, "there is room again", func() bool {
		h, _, files := r.request(opNetlink, 0, u32s(netlinkOpen, 0))
		_ = closeFiles(files...)
		return h.error == 0
	})
}

// A socket to which a program sends descriptors ends, because closing those could block.
func TestNetlinkDescriptors(t *testing.T) {
	r := newRig(t)
	n := r.netlink(5)
	err := unix.Sendmsg(n.fd(), n.message(5<<10|nldev.CmdSysGet, nlFlagsGet), unix.UnixRights(n.fd()), nil, unix.MSG_NOSIGNAL)
	if err == nil { // before Linux 6.16
		count, _, err := unix.Recvfrom(n.fd(), make([]byte, 100), 0)
		require.NoError(t, err)
		require.Zero(t, count)
		return
	}
	require.Equal(t, ePERM, err)
	_, errno := n.get(nldev.CmdSysGet)
	require.Zero(t, errno)
}
