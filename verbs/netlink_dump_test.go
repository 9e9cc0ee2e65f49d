package verbs

import (
	"os"
	"testing"

	"github.com/nicless/nicless/internal/await"
	"github.com/nicless/nicless/internal/unixsock"
	"github.com/nicless/nicless/verbs/internal/abi"
	"github.com/nicless/nicless/verbs/internal/nldev"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// Resources are there while their program has them, with the values that the program has set.
func TestNetlinkResources(t *testing.T) {
	r := newRig(t)
	n := r.netlink(5)
	for kind := range nldev.NumKinds {
		n.send(nldev.Tables[kind].Cmd, nlFlagsDump, nlAttr32(1, 0))
		all := n.answer()
		require.Len(t, all, 1, "an empty table is only an end")
	}
	p := r.program()
	key := p.smallMR()
	cq := p.ok(p.createCQ(100, 0)).value[abi.AttrCreateCQHandle]
	made := p.ok(p.createQP(abi.QPTRC, cq))
	qp, qpn := made.value[abi.AttrCreateQPHandle], le.Uint32(made.bytes[abi.AttrCreateQPRespQPNum])
	srq := p.createSRQ()
	p.ok(p.createDCT(cq, srq, abi.MLX5QPFlagTypeDCT))
	pid := uint32(os.Getpid())

	contexts := n.table(nldev.CmdResCtxGet, 86, 87)
	require.Len(t, contexts, 1)
	require.Equal(t, p.context().serial, contexts[0].u32(64))
	require.Equal(t, pid, contexts[0].u32(28))
	pds := n.table(nldev.CmdResPDGet, 46, 47)
	require.Len(t, pds, 1)
	require.Equal(t, contexts[0].u32(64), pds[0].u32(64))
	require.Equal(t, pid, pds[0].u32(28))
	pdn := pds[0].u32(60)
	mrs := n.table(nldev.CmdResMRGet, 40, 41)
	require.Len(t, mrs, 1)
	require.Equal(t, uint64(pageSize), mrs[0].u64(45))
	require.Equal(t, key, mrs[0].u32(42))
	require.Equal(t, key, mrs[0].u32(43))
	require.Equal(t, pdn, mrs[0].u32(60))
	cqs := n.table(nldev.CmdResCQGet, 35, 36)
	require.Len(t, cqs, 1)
	require.Equal(t, uint32(127), cqs[0].u32(37))
	require.Equal(t, uint64(4), cqs[0].u64(38), "each queue pair uses it twice")
	srqs := n.table(nldev.CmdResSRQGet, 88, 89)
	require.Len(t, srqs, 1)
	require.Equal(t, []byte{abi.SRQTBasic}, srqs[0][26][0])
	require.Equal(t, pdn, srqs[0].u32(60))

	require.Empty(t, n.table(nldev.CmdResQPGet, 19, 20, nlAttr32(3, 1)), "in RESET it has no port")
	qps := n.table(nldev.CmdResQPGet, 19, 20)
	require.Len(t, qps, 1, "queue pairs of the driver are not shown")
	require.NotContains(t, qps[0], 3)
	require.Equal(t, qpn, qps[0].u32(21))
	require.Equal(t, []byte{abi.QPSReset}, qps[0][27][0])
	require.Equal(t, []byte{abi.QPTRC}, qps[0][26][0])
	require.Equal(t, pdn, qps[0].u32(60))
	qps = n.table(nldev.CmdResQPGet, 19, 20, nlAttr(97, 1))
	require.Len(t, qps, 2, "unless the reader asks for details")

	p.ok(p.exModify(change(qp, abi.QPSInit, initMask), abi.ExModifyQPRespSize))
	one, errno := n.get(nldev.CmdResQPGet, nlAttr32(1, 0), nlAttr32(3, 1), nlAttr32(21, qpn))
	require.Zero(t, errno)
	require.Equal(t, []byte{abi.QPSInit}, one[27][0])
	require.Equal(t, uint32(1), one.u32(3))
	require.Len(t, n.table(nldev.CmdResQPGet, 19, 20, nlAttr32(3, 1)), 1)

	summary, errno := n.get(nldev.CmdResGet, nlAttr32(1, 0))
	require.Zero(t, errno)
	var names []string
	counts := make(map[string]uint64)
	for _, item := range summary.nested(t, 15)[0].nested(t, 16) {
		names = append(names, item.text(17))
		counts[item.text(17)] = item.u64(18)
	}
	require.Equal(t, []string{"pd", "cq", "qp", "cm_id", "mr", "ctx", "srq"}, names)
	require.Equal(t, map[string]uint64{"pd": 1, "cq": 1, "qp": 2, "cm_id": 0, "mr": 1, "ctx": 1, "srq": 1}, counts)

	p.ok(p.destroyQP(qp))
	_, errno = n.get(nldev.CmdResQPGet, nlAttr32(1, 0), nlAttr32(3, 1), nlAttr32(21, qpn))
	require.Equal(t, eNOENT, errno)
	// Resources of a process that has ended belong to no process.
	p.p.opener.ended.Store(true)
	require.NotContains(t, n.table(nldev.CmdResPDGet, 46, 47)[0], 28)
}

const initMask = 1 | 1<<3 | 1<<4 | 1<<5 // IBV_QP_STATE, ACCESS_FLAGS, PKEY_INDEX, PORT

// smallMR registers a page, and returns the key.
func (p *program) smallMR() (key uint32) {
	const addr = 0x20000
	p.share(addr, pageSize)
	made := p.ok(p.regMR(addr, pageSize, addr, p.pd, abi.AccessLocalWrite))
	return le.Uint32(made.bytes[abi.AttrCoreOut][4:])
}

// manyPDs makes more protection domains than a socket has room for in unread answers, whose room it cuts.
func manyPDs(p *program, n *nlRig) int {
	const many = 1000
	require.NoError(p, unixsock.Control(n.socket().file, func(fd int) error {
		return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUF, 1)
	}))
	for range many {
		p.ok(p.write(p.ctx, abi.CmdAllocPD, make([]byte, abi.AllocPDSize), abi.AllocPDRespSize, arg{id: abi.AttrUHWOut, out: abi.MLX5AllocPDRespSize}))
	}
	return many + 1
}

// A dump of more than a socket has room for waits for its reader, and for nobody else. Meanwhile other
// requests of the same socket are refused like the kernel's or lost, and those of other sockets are answered.
func TestNetlinkLongDump(t *testing.T) {
	r := newRig(t)
	p := r.program()
	n, other := r.netlink(5), r.netlink(6)
	many := manyPDs(p, n)
	n.send(nldev.CmdResPDGet, nlFlagsDump, nlAttr32(1, 0))
	k := n.socket()
	await.Until(t, "the dump waits", func() bool {
		k.mu.Lock()
		defer k.mu.Unlock()
		return k.dump != nil
	})
	seq := n.seq
	n.send(nldev.CmdResPDGet, nlFlagsDump, nlAttr32(1, 0))
	require.Len(t, other.table(nldev.CmdResPDGet, 46, 47), many)
	var ids []uint32
	refused, lost, done := 0, 0, false
	for !done {
		for _, m := range n.receive() {
			switch {
			case m.kind == nlOverrun:
				lost++
			case m.kind == nlError:
				require.Equal(t, eBUSY, m.errno)
				refused++
			case m.kind == nlDone:
				require.Zero(t, m.errno)
				done = true
			default:
				require.Equal(t, seq, m.seq)
				for _, e := range m.attrs.nested(t, 46)[0].nested(t, 47) {
					ids = append(ids, e.u32(60))
				}
			}
		}
	}
	require.Equal(t, 1, refused+lost, "the second request")
	require.Len(t, ids, many)
	for i, id := range ids {
		require.Equal(t, uint32(i), id)
	}
	require.Len(t, n.table(nldev.CmdResPDGet, 46, 47), many, "the next dump begins anew")
}

// A dump that is never read ends with its socket, and its user is not charged any more.
func TestNetlinkDumpIsClosed(t *testing.T) {
	r := newRig(t)
	p := r.program()
	n := r.netlink(5)
	manyPDs(p, n)
	n.send(nldev.CmdResPDGet, nlFlagsDump, nlAttr32(1, 0))
	k := n.socket()
	await.Until(t, "the dump waits", func() bool {
		k.mu.Lock()
		defer k.mu.Unlock()
		return k.dump != nil
	})
	require.NoError(t, n.file.Close())
	await.Until(t, "the dump ends", func() bool {
		k.mu.Lock()
		defer k.mu.Unlock()
		return k.dump == nil && !k.sending
	})
}

// A monitor is told that the interface of its namespace changes, and that the devices go. Others are told
// nothing.
func TestNetlinkMonitor(t *testing.T) {
	s := newServing(t)
	r := s.rig(t)
	r.p.key.cookie = 7 // a namespace of its own
	r.tell("eth1", "192.0.2.1/24")
	n, silent := r.netlink(5), r.netlink(6)
	other := s.rig(t)
	other.tell("eth1", "192.0.2.2/24")
	far := other.netlink(7)
	for _, m := range []*nlRig{n, far} {
		_, errno := r.option(m, netlinkGroups, 1<<(nldev.GroupNotify-1))
		require.Zero(t, errno)
	}
	r.tell("eth1", "192.0.2.1/24", "eth1", "192.0.2.9/24")
	r.tell("eth2", "198.51.100.1/24")
	var got []string
	for range 2 * len(s.devices) {
		for _, m := range n.receive() {
			require.Equal(t, nlMessage{kind: 5<<10 | nldev.CmdMonitor, attrs: m.attrs}, m)
			got = append(got, m.attrs.text(2)+" "+itoa(int(m.attrs[102][0][0]))+" "+m.attrs.text(51)+" "+itoa(int(m.attrs.u32(50))))
		}
	}
	require.Equal(t, []string{"nicless0 3 eth1 3", "nicless0 2 eth2 4", "nicless1 3 eth1 3", "nicless1 2 eth2 4"}, got)
	s.notifyGone()
	for _, m := range []*nlRig{n, far} {
		for _, d := range s.devices {
			gone := m.receive()[0].attrs
			require.Equal(t, []byte{1}, gone[102][0])
			require.Equal(t, d.name, gone.text(2))
		}
	}
	_, _, err := unix.Recvfrom(silent.fd(), make([]byte, 100), unix.MSG_DONTWAIT)
	require.Equal(t, eAGAIN, err)
}

// A monitor that never reads loses messages and is told so when it reads. It holds nobody up.
func TestNetlinkSilentMonitor(t *testing.T) {
	s := newServing(t)
	r := s.rig(t)
	n, brave := r.netlink(5), r.netlink(6)
	_, errno := r.option(n, netlinkGroups, 1<<(nldev.GroupNotify-1))
	require.Zero(t, errno)
	_, errno = r.option(brave, netlinkGroups, 1<<(nldev.GroupNotify-1))
	require.Zero(t, errno)
	_, errno = r.option(brave, unix.NETLINK_NO_ENOBUFS, 1)
	require.Zero(t, errno)
	const many = 1000
	for range many {
		s.notifyGone()
	}
	for m, wants := range map[*nlRig]int{n: 1, brave: 0} {
		overruns, events := 0, 0
		for {
			b := make([]byte, 4096)
			count, _, err := unix.Recvfrom(m.fd(), b, unix.MSG_DONTWAIT)
			if err == eAGAIN && overruns == wants {
				break
			}
			if err == eAGAIN { // the note is on its way
				continue
			}
			require.NoError(t, err)
			if parseNLMessages(t, b[:count])[0].kind == nlOverrun {
				overruns++
			} else {
				events++
			}
		}
		require.Less(t, events, 2*many)
		require.Greater(t, events, 10)
	}
	_, errno = n.get(nldev.CmdSysGet)
	require.Zero(t, errno)
}
