package verbs

import (
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/nicless/nicless/field/devx"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/verbs/internal/abi"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// A maker is a program whose context has firmware commands.
type maker struct {
	*program
	ring, records uint32 // umems
}

func newMaker(t testing.TB) *maker {
	t.Helper()
	return newServingWith(t, Config{}).rig(t).maker()
}

func (r *rig) maker() *maker {
	r.Helper()
	m := &maker{program: r.program()}
	m.context().devx = true // as GET_CONTEXT does
	m.ring, _ = m.umem(1 << 20)
	m.records, _ = m.umem(pageSize)
	return m
}

// umem registers new memory, and returns the umem's number and its handle.
func (m *maker) umem(size uint64) (id uint32, handle uint64) {
	m.Helper()
	a := m.ok(m.ioctl(m.ctx, abi.MLX5ObjectDEVXUmem, abi.MLX5MethodDEVXUmemReg, arg{id: abi.MLX5AttrDEVXUmemRegHandle},
		arg{id: abi.MLX5AttrDEVXUmemRegAddr, in: u64s(m.program.ring(size))}, arg{id: abi.MLX5AttrDEVXUmemRegLen, in: u64s(size)},
		word(abi.MLX5AttrDEVXUmemRegAccess, abi.AccessLocalWrite), arg{id: abi.MLX5AttrDEVXUmemRegOutID, out: 4}))
	return le.Uint32(a.bytes[abi.MLX5AttrDEVXUmemRegOutID]), a.value[abi.MLX5AttrDEVXUmemRegHandle]
}

func (m *maker) deregister(h uint64) unix.Errno {
	m.Helper()
	return m.ioctl(m.ctx, abi.MLX5ObjectDEVXUmem, abi.MLX5MethodDEVXUmemDereg, arg{id: abi.MLX5AttrDEVXUmemDeregHandle, data: h}).errno
}

func (m *maker) create(cmd []byte) answer {
	m.Helper()
	return m.ioctl(m.ctx, abi.MLX5ObjectDEVXObj, abi.MLX5MethodDEVXObjCreate, arg{id: abi.MLX5AttrDEVXObjCreateHandle},
		arg{id: abi.MLX5AttrDEVXObjCreateCmdIn, in: cmd}, arg{id: abi.MLX5AttrDEVXObjCreateCmdOut, out: devx.HeadSize})
}

func (m *maker) destroy(h uint64) unix.Errno {
	m.Helper()
	return m.ioctl(m.ctx, abi.MLX5ObjectDEVXObj, abi.MLX5MethodDEVXObjDestroy, arg{id: abi.MLX5AttrDEVXObjDestroyHandle, data: h}).errno
}

func (m *maker) modify(h uint64, cmd []byte) answer {
	m.Helper()
	return m.ioctl(m.ctx, abi.MLX5ObjectDEVXObj, abi.MLX5MethodDEVXObjModify, arg{id: abi.MLX5AttrDEVXObjModifyHandle, data: h},
		arg{id: abi.MLX5AttrDEVXObjModifyCmdIn, in: cmd}, arg{id: abi.MLX5AttrDEVXObjModifyCmdOut, out: devx.HeadSize})
}

func (m *maker) query(h uint64, qpn uint32) []byte {
	m.Helper()
	a := m.ok(m.ioctl(m.ctx, abi.MLX5ObjectDEVXObj, abi.MLX5MethodDEVXObjQuery, arg{id: abi.MLX5AttrDEVXObjQueryHandle, data: h},
		arg{id: abi.MLX5AttrDEVXObjQueryCmdIn, in: mailbox(devx.OpQueryQP, devx.QPN, qpn)},
		arg{id: abi.MLX5AttrDEVXObjQueryCmdOut, out: 272}))
	return a.bytes[abi.MLX5AttrDEVXObjQueryCmdOut]
}

// mailbox returns a command with values of fields: pairs of a *devx.Field and an integer.
func mailbox(op uint16, pairs ...any) []byte {
	cmd := make([]byte, devx.Find(op).InSize)
	devx.Opcode.Put(cmd, uint64(op))
	return set(cmd, pairs...)
}

func set(cmd []byte, pairs ...any) []byte {
	for i := 0; i < len(pairs); i += 2 {
		var v uint64
		switch n := pairs[i+1].(type) {
		case int:
			v = uint64(n)
		case uint32:
			v = uint64(n)
		case uint64:
			v = n
		}
		pairs[i].(*devx.Field).Put(cmd, v)
	}
	return cmd
}

// cqCommand is CREATE_CQ of 16 entries, at the beginning of the umems.
func (m *maker) cqCommand(pairs ...any) []byte {
	return set(mailbox(devx.OpCreateCQ, devx.CQLogSize, 4, devx.CQEventQueue, firstEQN, devx.CQUAR, m.uar, devx.CQUmem, m.ring,
		devx.CQRecordUmem, m.records), pairs...)
}

// qpCommand is CREATE_QP of an RC queue pair with 16 blocks and no receives, behind a CQ's entries.
func (m *maker) qpCommand(cqn uint32, pairs ...any) []byte {
	return set(mailbox(devx.OpCreateQP, devx.QPPD, m.domain(), devx.QPLogSQ, 4, devx.QPUAR, m.uar, devx.QPSendCQ, cqn,
		devx.QPRQType, devx.RQNone, devx.QPRecordUmem, m.records, devx.QPRecord, 64, devx.QPUmem, m.ring, devx.QPUmemOffset, 4096), pairs...)
}

// rmpCommand is CREATE_RMP of 16 entries of 32 bytes.
func (m *maker) rmpCommand(pairs ...any) []byte {
	return set(mailbox(devx.OpCreateRMP, devx.RMPState, 1, devx.WQType, devx.WQCyclic, devx.WQPD, m.domain(), devx.WQLogStride, 5,
		devx.WQLogSize, 4, devx.WQRecordUmem, m.records, devx.WQRecord, 128, devx.WQUmem, m.ring, devx.WQUmemOffset, 8192), pairs...)
}

// domain returns the device's number of the program's protection domain.
func (m *maker) domain() uint32 {
	for n := range m.context().domains {
		return n
	}
	return 0
}

func (m *maker) made(cmd []byte, number *devx.Field) (handle uint64, n uint32) {
	m.Helper()
	a := m.ok(m.create(cmd))
	return a.value[abi.MLX5AttrDEVXObjCreateHandle], uint32(number.Get(a.bytes[abi.MLX5AttrDEVXObjCreateCmdOut]))
}

// failed checks that a firmware command has failed, and that its answer says why.
func (m *maker) failed(a answer, attr uint16, want devx.Status, f *devx.Field, what string) {
	m.Helper()
	require.Equal(m, unix.EREMOTEIO, a.errno, what)
	out := a.bytes[attr]
	require.Len(m, out, devx.HeadSize, what)
	require.Equal(m, want, devx.Status(out[0]), what)
	if f != nil {
		require.EqualValues(m, f.At<<5|f.Low, binary.BigEndian.Uint32(out[4:])&0xffff, "%s: the syndrome names %s", what, f.Name)
	}
}

// A mailbox that is too short for its command has a status of its own, at each length.
func TestMailboxLengths(t *testing.T) {
	m := newMaker(t)
	_, cqn := m.made(m.cqCommand(), devx.NewCQN)
	for _, whole := range [][]byte{m.cqCommand(devx.CQUmemOffset, 16384), m.qpCommand(cqn), m.rmpCommand()} {
		name := devx.Name(binary.BigEndian.Uint16(whole))
		long := append(whole, make([]byte, 512-len(whole))...)
		for n := range 513 {
			a := m.create(long[:n])
			switch {
			case n < devx.HeadSize:
				require.Equal(t, unix.EINVAL, a.errno, "%s of %d bytes", name, n)
			case n < len(whole):
				m.failed(a, abi.MLX5AttrDEVXObjCreateCmdOut, devx.StatusBadInputLength, nil, fmt.Sprintf("%s of %d bytes", name, n))
			default:
				require.Zero(t, m.destroy(m.ok(a).value[abi.MLX5AttrDEVXObjCreateHandle]), "%s of %d bytes", name, n)
			}
		}
	}
}

// A command that is wrong makes nothing, and its answer names the field.
func TestMadeWrong(t *testing.T) {
	m := newMaker(t)
	other := m.s.rig(t).maker() // another process with a context of its own
	_, cqn := m.made(m.cqCommand(), devx.NewCQN)
	_, foreign := other.made(other.cqCommand(), devx.NewCQN)
	_, foreignRMP := other.made(other.rmpCommand(), devx.NewRMPN)
	_, rmpn := m.made(m.rmpCommand(), devx.NewRMPN)
	before := len(m.context().objects)
	dct := func(pairs ...any) []byte {
		return set(mailbox(devx.OpCreateDCT, devx.DCTPD, m.domain(), devx.DCTSRQ, rmpn, devx.DCTCQ, cqn, devx.DCTPort, 1, devx.DCTMTU, 5), pairs...)
	}
	for _, c := range []struct {
		what  string
		cmd   []byte
		want  devx.Status
		field *devx.Field
	}{
		{"a CQ that is too large", m.cqCommand(devx.CQLogSize, 31), devx.StatusBadParameter, devx.CQLogSize},
		{"entries of an unknown size", m.cqCommand(devx.CQEntrySize, 5), devx.StatusBadParameter, devx.CQEntrySize},
		{"a strange event queue", m.cqCommand(devx.CQEventQueue, 99), devx.StatusBadParameter, devx.CQEventQueue},
		{"no such umem", m.cqCommand(devx.CQUmem, 0xffffff), devx.StatusBadResource, devx.CQUmem},
		{"umem 0", m.cqCommand(devx.CQRecordUmem, 0), devx.StatusBadResource, devx.CQRecordUmem},
		{"entries beyond the umem", m.cqCommand(devx.CQUmemOffset, 1<<20-512), devx.StatusBadParameter, devx.CQUmemOffset},
		{"an offset that wraps", m.cqCommand(devx.CQUmemOffset, ^uint64(63)), devx.StatusBadParameter, devx.CQUmemOffset},
		{"entries that are not aligned", m.cqCommand(devx.CQUmemOffset, 32), devx.StatusBadParameter, devx.CQUmemOffset},
		{"a record beyond the umem", m.cqCommand(devx.CQRecord, pageSize), devx.StatusBadParameter, devx.CQRecord},
		{"a record that is not aligned", m.cqCommand(devx.CQRecord, 4), devx.StatusBadParameter, devx.CQRecord},
		{"another's UAR page", m.cqCommand(devx.CQUAR, 63), devx.StatusBadResource, devx.CQUAR},
		{"a page offset", m.cqCommand(devx.CQPageOffset, 1), devx.StatusBadParameter, devx.CQPageOffset},
		{"another's CQ", m.qpCommand(foreign), devx.StatusBadResource, devx.QPSendCQ},
		{"no CQ", m.qpCommand(0), devx.StatusBadResource, devx.QPSendCQ},
		{"no PD", m.qpCommand(cqn, devx.QPPD, 0xffff), devx.StatusBadResource, devx.QPPD},
		{"a type", m.qpCommand(cqn, devx.QPType, 9), devx.StatusBadParameter, devx.QPType},
		{"streams of a DCI", m.qpCommand(cqn, devx.QPType, int(control.QPTypeDCI), devx.QPLogStreams, 16), devx.StatusBadParameter, devx.QPLogStreams},
		{"errored streams", m.qpCommand(cqn, devx.QPType, int(control.QPTypeDCI), devx.QPLogErrored, 16), devx.StatusBadParameter, devx.QPLogErrored},
		{"a state", m.qpCommand(cqn, devx.QPState, devx.StateRTS), devx.StatusBadParameter, devx.QPState},
		{"another's RMP", m.qpCommand(cqn, devx.QPReceiveCQ, cqn, devx.QPRQType, devx.RQShared, devx.QPSRQ, foreignRMP), devx.StatusBadResource, devx.QPSRQ},
		{"receives without a CQ", m.qpCommand(cqn, devx.QPRQType, devx.RQOwn), devx.StatusBadResource, devx.QPReceiveCQ},
		{"a doorbell mode", m.qpCommand(cqn, devx.QPDoorbells, 3), devx.StatusBadParameter, devx.QPDoorbells},
		{"queues beyond the umem", m.qpCommand(cqn, devx.QPLogSQ, 15), devx.StatusBadParameter, devx.QPUmemOffset},
		{"no record", m.qpCommand(cqn, devx.QPRecordUmem, 0), devx.StatusBadResource, devx.QPRecordUmem},
		{"a UAR page of nobody", m.qpCommand(cqn, devx.QPUAR, 0xffffff), devx.StatusBadResource, devx.QPUAR},
		{"a compressed layout", m.cqCommand(devx.CQLayout, 1), devx.StatusBadParameter, devx.CQLayout},
		{"receives that wait", m.rmpCommand(devx.WQSlave, 1), devx.StatusBadParameter, devx.WQSlave},
		{"entries beside their page", m.rmpCommand(devx.WQPageOffset, 1), devx.StatusBadParameter, devx.WQPageOffset},
		{"a key of no PD", mailbox(devx.OpCreateMkey, devx.KeyFree, 1, devx.KeyUMR, 1, devx.KeyMode, devx.ModeKLM, devx.KeyEntries, 4), devx.StatusBadParameter, nil},
		{"a key of pages", mailbox(devx.OpCreateMkey, devx.KeyMode, devx.ModeMTT, devx.KeyPD, m.domain()), devx.StatusBadParameter, nil},
		{"a key of everything", mailbox(devx.OpCreateMkey, devx.KeyFree, 1, devx.KeyUMR, 1, devx.KeyMode, devx.ModeKLM, devx.KeyPD, m.domain(), devx.KeyEntries, 4, devx.KeyWhole, 1), devx.StatusBadParameter, nil},
		{"a key with too many entries", mailbox(devx.OpCreateMkey, devx.KeyFree, 1, devx.KeyUMR, 1, devx.KeyMode, devx.ModeKLM, devx.KeyPD, m.domain(), devx.KeyEntries, uint32(1<<32-1)), devx.StatusBadParameter, nil},
		{"an RMP of long entries", m.rmpCommand(devx.WQLogStride, 15), devx.StatusBadParameter, devx.WQLogStride},
		{"an RMP of short entries", m.rmpCommand(devx.WQLogStride, 4), devx.StatusBadParameter, devx.WQLogStride},
		{"an RMP of another type", m.rmpCommand(devx.WQType, 3), devx.StatusBadParameter, devx.WQType},
		{"a DCT without an SRQ", dct(devx.DCTSRQ, 0), devx.StatusBadResource, devx.DCTSRQ},
		{"a DCT with another's CQ", dct(devx.DCTCQ, foreign), devx.StatusBadResource, devx.DCTCQ},
		{"a DCT of a port", dct(devx.DCTPort, 9), devx.StatusBadParameter, nil},
		{"a DCT of an MTU", dct(devx.DCTMTU, 7), devx.StatusBadParameter, nil},
	} {
		m.failed(m.create(c.cmd), abi.MLX5AttrDEVXObjCreateCmdOut, c.want, c.field, c.what)
		require.Len(t, m.context().objects, before, c.what)
	}
	require.Equal(t, unix.EINVAL, m.create(mailbox(devx.OpQueryQP)).errno, "a command that makes nothing")
	require.Equal(t, unix.EINVAL, m.create(set(make([]byte, 272), devx.Opcode, 0xfff)).errno, "an unknown command")
}

// A queue pair that registers alone start and that has no receives needs no umem for a record. One with
// receives of its own does.
func TestMadeWithoutRecord(t *testing.T) {
	m := newMaker(t)
	_, cqn := m.made(m.cqCommand(), devx.NewCQN)
	_, rmpn := m.made(m.rmpCommand(), devx.NewRMPN)
	for mode := 1; mode <= 2; mode++ {
		without := []any{devx.QPRecordUmem, 0, devx.QPRecord, 0, devx.QPDoorbells, mode}
		h, qpn := m.made(m.qpCommand(cqn, without...), devx.NewQPN)
		m.connect(h, qpn, 3)
		require.EqualValues(t, devx.StateRTS, devx.QPState.Get(m.query(h, qpn)))
		require.Zero(t, m.destroy(h))
		shared := append([]any{devx.QPReceiveCQ, cqn, devx.QPRQType, devx.RQShared, devx.QPSRQ, rmpn}, without...)
		h, _ = m.made(m.qpCommand(cqn, shared...), devx.NewQPN)
		require.Zero(t, m.destroy(h))
		own := append([]any{devx.QPReceiveCQ, cqn, devx.QPRQType, devx.RQOwn, devx.QPLogRQ, 2}, without...)
		m.failed(m.create(m.qpCommand(cqn, own...)), abi.MLX5AttrDEVXObjCreateCmdOut, devx.StatusBadResource, devx.QPRecordUmem, "receives without a record")
	}
}

// uarPage allocates a UAR object, which has a page of its own.
func (m *maker) uarPage(allocType uint64) int {
	m.Helper()
	args := allocUARArgs()
	args[1] = number(abi.MLX5AttrUARObjAllocType, allocType)
	return int(le.Uint32(m.ok(m.ioctl(m.ctx, abi.MLX5ObjectUAR, abi.MLX5MethodUARObjAlloc, args...)).bytes[abi.MLX5AttrUARObjAllocPageID]))
}

// A page of type NC has one queue pair that registers alone start, and one of type BF two. Others are
// refused, as long as these live. Queue pairs with records share pages.
func TestMadeOnSharedRegister(t *testing.T) {
	m := newMaker(t)
	_, cqn := m.made(m.cqCommand(), devx.NewCQN)
	for _, c := range []struct {
		allocType uint64
		registers int
	}{{abi.MLX5UARAllocTypeNC, 1}, {abi.MLX5UARAllocTypeBF, 2}} {
		page := m.uarPage(c.allocType)
		made := func(mode int) []byte {
			return m.qpCommand(cqn, devx.QPUAR, page, devx.QPDoorbells, mode)
		}
		m.made(made(0), devx.NewQPN)
		var first uint64
		var said []string
		for i := range c.registers {
			h, qpn := m.made(made(1+i), devx.NewQPN)
			first, said = h, append(said, fmt.Sprintf("%#x", qpn))
		}
		before := len(m.context().objects)
		for mode := 1; mode <= 2; mode++ {
			a := m.create(made(mode))
			m.failed(a, abi.MLX5AttrDEVXObjCreateCmdOut, devx.StatusResourceBusy, devx.QPUAR, "a register of others")
			err := m.context().registerLeft(made(mode), uint16(page-firstUAR))
			for _, why := range append(said, fmt.Sprintf("uar_page (0x24 bits 23..0) is %#x", page), fmt.Sprintf("umem %#x at offset 0x1000", m.ring)) {
				require.ErrorContains(t, err, why)
			}
		}
		require.Len(t, m.context().objects, before)
		m.made(made(0), devx.NewQPN)
		m.made(set(made(1), devx.QPUAR, m.uarPage(abi.MLX5UARAllocTypeNC)), devx.NewQPN) // another page
		m.made(set(made(1), devx.QPNoSQ, 1), devx.NewQPN)                                // sends nothing
		require.Zero(t, m.destroy(first))
		m.made(made(2), devx.NewQPN)
	}
}

// Objects are destroyed only after those that use them, and a umem stays as long as it is used.
func TestMadeOrder(t *testing.T) {
	m := newMaker(t)
	ring, ringHandle := m.umem(1 << 20)
	cq, cqn := m.made(m.cqCommand(devx.CQUmem, ring), devx.NewCQN)
	rmp, rmpn := m.made(m.rmpCommand(devx.WQUmem, ring), devx.NewRMPN)
	qp, _ := m.made(m.qpCommand(cqn, devx.QPUmem, ring, devx.QPReceiveCQ, cqn, devx.QPRQType, devx.RQShared, devx.QPSRQ, rmpn), devx.NewQPN)
	for _, h := range []uint64{cq, rmp} {
		require.Equal(t, unix.EBUSY, m.destroy(h))
	}
	require.Equal(t, unix.EBUSY, m.deregister(ringHandle))
	for _, h := range []uint64{qp, rmp, cq} {
		require.Equal(t, unix.EBUSY, m.deregister(ringHandle))
		require.Zero(t, m.destroy(h))
	}
	require.Zero(t, m.deregister(ringHandle))
	require.Equal(t, unix.ENOENT, m.destroy(qp))
	other := m.s.rig(t).maker()
	h, qpn := m.made(m.qpCommand(func() uint32 { _, n := m.made(m.cqCommand(), devx.NewCQN); return n }()), devx.NewQPN)
	require.Equal(t, unix.ENOENT, other.modify(h+1000, mailbox(devx.OpRST2INIT, devx.QPN, qpn)).errno, "no handle")
	require.NotZero(t, other.modify(h, mailbox(devx.OpRST2INIT, devx.QPN, qpn)).errno, "a handle of another context")
	require.Equal(t, unix.EINVAL, m.modify(h, mailbox(devx.OpRST2INIT, devx.QPN, qpn+1)).errno, "the number of another queue pair")
}

// connect takes a queue pair from RST to RTS, connected to itself.
func (m *maker) connect(h uint64, qpn uint32, upTo int) {
	m.Helper()
	gid := m.context().gidAt(1)
	// As DOCA and NVSHMEM send it, without the port.
	rtr := mailbox(devx.OpINIT2RTR, devx.QPN, qpn, devx.QPMTU, 3, devx.QPRemote, qpn, devx.QPReceivePSN, 7, devx.QPLogRRA, 3, devx.QPMinRNR, 12,
		devx.QPGIDIndex, 1)
	copy(devx.QPGID.Raw(rtr), gid[:])
	for _, cmd := range [][]byte{
		mailbox(devx.OpRST2INIT, devx.QPN, qpn, devx.QPPort, 1, devx.QPWrites, 1, devx.QPReads, 1), rtr,
		mailbox(devx.OpRTR2RTS, devx.QPN, qpn, devx.QPTimeout, 14, devx.QPRetryCount, 6, devx.QPRNRRetry, 7, devx.QPSendPSN, 7, devx.QPLogSRA, 2),
	}[:upTo] {
		m.ok(m.modify(h, cmd))
	}
}

// QUERY_QP answers what a library believes, in each state; and rights count only where the firmware's rules
// say so.
func TestMadeStates(t *testing.T) {
	m := newMaker(t)
	_, cqn := m.made(m.cqCommand(), devx.NewCQN)
	h, qpn := m.made(m.qpCommand(cqn, devx.QPUserIndex, 0xffffff), devx.NewQPN)
	is := func(pairs ...any) {
		t.Helper()
		got := m.query(h, qpn)
		for i := 0; i < len(pairs); i += 2 {
			f := pairs[i].(*devx.Field)
			require.EqualValues(t, pairs[i+1], f.Get(got), f.Name)
		}
	}
	is(devx.QPState, devx.StateRST, devx.QPMTU, activeMTU, devx.QPUserIndex, 0xffffff, devx.QPLogSQ, 4, devx.QPSendCQ, int(cqn))
	m.connect(h, qpn, 1)
	is(devx.QPState, devx.StateINIT, devx.QPWrites, 1, devx.QPReads, 1, devx.QPAtomics, 0, devx.QPPort, 1)
	m.failed(m.modify(h, mailbox(devx.OpRTR2RTS, devx.QPN, qpn)), abi.MLX5AttrDEVXObjModifyCmdOut, devx.StatusBadQPState, nil, "RTR is left out")
	m.failed(m.modify(h, mailbox(devx.OpINIT2RTR, devx.QPN, qpn)), abi.MLX5AttrDEVXObjModifyCmdOut, devx.StatusBadParameter, devx.QPMTU, "no MTU")
	is(devx.QPState, devx.StateINIT)
	m.ok(m.modify(h, mailbox(devx.Op2RST, devx.QPN, qpn)))
	m.connect(h, qpn, 3)
	m.failed(m.modify(h, mailbox(devx.OpINIT2RTR, devx.QPN, qpn, devx.QPMTU, 3)), abi.MLX5AttrDEVXObjModifyCmdOut, devx.StatusBadQPState, nil, "in RTS already")
	is(devx.QPDoneBlocks, 0, devx.QPPostedBlocks, 0)
	is(devx.QPState, devx.StateRTS, devx.QPMTU, 3, devx.QPRemote, int(qpn), devx.QPReceivePSN, 7, devx.QPSendPSN, 7, devx.QPTimeout, 14,
		devx.QPRetryCount, 6, devx.QPRNRRetry, 7, devx.QPLogSRA, 2, devx.QPLogRRA, 3, devx.QPWrites, 1, devx.QPReads, 1)
	m.ok(m.modify(h, mailbox(devx.OpRTS2RTS, devx.QPN, qpn, devx.QPAtomics, 1)))
	is(devx.QPWrites, 1, devx.QPReads, 1, devx.QPAtomics, 0) // no bit said that they count
	m.ok(m.modify(h, mailbox(devx.OpRTS2RTS, devx.QPN, qpn, devx.OptParamMask, devx.OptRAE|devx.OptRRE, devx.QPAtomics, 1)))
	is(devx.QPWrites, 1, devx.QPReads, 0, devx.QPAtomics, 1)
	m.ok(m.modify(h, mailbox(devx.Op2ERR, devx.QPN, qpn)))
	is(devx.QPState, devx.StateERR)
	m.ok(m.modify(h, mailbox(devx.Op2RST, devx.QPN, qpn)))
	is(devx.QPState, devx.StateRST, devx.QPMTU, activeMTU)
	cq := m.ok(m.createCQ(16, 0)).value[abi.AttrCreateCQHandle]
	verbsQP := m.ok(m.createQP(abi.QPTRC, cq))
	number := le.Uint32(verbsQP.bytes[abi.AttrCreateQPRespQPNum])
	got := m.query(verbsQP.value[abi.AttrCreateQPHandle], number)
	require.EqualValues(t, devx.StateRST, devx.QPState.Get(got), "a queue pair of the verbs")
	m.ok(m.modify(verbsQP.value[abi.AttrCreateQPHandle], mailbox(devx.OpRST2INIT, devx.QPN, number, devx.QPPort, 1)))
	require.EqualValues(t, control.StateINIT, devx.QPState.Get(m.query(verbsQP.value[abi.AttrCreateQPHandle], number)))
}
