package verbs

import (
	"testing"

	"github.com/nicless/nicless/field/devx"
	"github.com/nicless/nicless/verbs/internal/abi"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// Proofs of capabilities: the objects behind them are made.

// most requires that a command makes an object with a field of v, and none with a field of more.
func (m *maker) most(cmd []byte, f *devx.Field, v int) {
	m.Helper()
	a := m.ok(m.create(set(cmd, f, v)))
	require.Zero(m, m.destroy(a.value[abi.MLX5AttrDEVXObjCreateHandle]))
	if uint64(v) < f.Most() {
		m.failed(m.create(set(cmd, f, v+1)), abi.MLX5AttrDEVXObjCreateCmdOut, devx.StatusBadParameter, f, f.Name)
	}
}

// many requires that a command makes 2^v objects, each with a number of its own.
func (m *maker) many(cmd []byte, number *devx.Field, v int) {
	m.Helper()
	seen := make(map[uint32]bool)
	for range 1 << v {
		_, n := m.made(cmd, number)
		require.False(m, seen[n], "%s %#x is given twice", number.Name, n)
		seen[n] = true
	}
}

func manyCQs(m *maker, v int)  { m.many(m.cqCommand(), devx.NewCQN, v) }
func manyRMPs(m *maker, v int) { m.many(m.rmpCommand(), devx.NewRMPN, v) }

func manyQPs(m *maker, v int) {
	_, cqn := m.made(m.cqCommand(), devx.NewCQN)
	m.many(m.qpCommand(cqn), devx.NewQPN, v)
}

// manyDomains counts the domain that the program has.
func manyDomains(m *maker, v int) {
	alloc := func() answer {
		return m.write(m.ctx, abi.CmdAllocPD, make([]byte, abi.AllocPDSize), abi.AllocPDRespSize,
			arg{id: abi.AttrUHWOut, out: abi.MLX5AllocPDRespSize})
	}
	for range 1<<v - 1 {
		m.ok(alloc())
	}
	require.Equal(m, unix.ENOMEM, alloc().errno, "one more")
}

func oneDCT(m *maker, _ int) {
	_, cqn := m.made(m.cqCommand(), devx.NewCQN)
	_, rmpn := m.made(m.rmpCommand(), devx.NewRMPN)
	m.made(mailbox(devx.OpCreateDCT, devx.DCTPD, m.domain(), devx.DCTSRQ, rmpn, devx.DCTCQ, cqn, devx.DCTPort, 1, devx.DCTMTU, 5),
		devx.NewDCTN)
}

// Queue pairs may have each doorbell mode, although the capability for it is not claimed.
func TestDoorbellModes(t *testing.T) {
	m := newMaker(t)
	_, cqn := m.made(m.cqCommand(), devx.NewCQN)
	h, _ := m.made(m.qpCommand(cqn, devx.QPDoorbells, 1), devx.NewQPN)
	require.Zero(t, m.destroy(h)) // the page has one register for such queue pairs
	m.most(m.qpCommand(cqn), devx.QPDoorbells, 2)
}

// generalObjects makes an object of each type that has a bit, and none of others.
func generalObjects(m *maker, v int) {
	for bit := range 32 {
		cmd := make([]byte, 96)
		set(cmd, devx.Opcode, devx.OpCreateGeneralObject, devx.ObjectType, 32+bit)
		a := m.create(cmd)
		if v>>bit&1 != 0 {
			m.ok(a)
		} else {
			require.Equal(m, unix.EREMOTEIO, a.errno, "type %#x", 32+bit)
		}
	}
}

// lists makes a key for as many entries as a capability says.
func lists(m *maker, v int) { m.ok(m.createMkey(mkeyCommand(m.pdn(), 1<<v))) }

// moving makes a queue pair, and returns a function that sends a command with more fields about it.
func (m *maker) moving(upTo int) func(op uint16, pairs ...any) answer {
	_, cqn := m.made(m.cqCommand(), devx.NewCQN)
	h, qpn := m.made(m.qpCommand(cqn), devx.NewQPN)
	m.connect(h, qpn, upTo)
	return func(op uint16, pairs ...any) answer {
		cmd := set(mailbox(op, devx.QPN, qpn, devx.QPRemote, qpn, devx.QPPort, 1, devx.QPTimeout, 14, devx.QPRetryCount, 6,
			devx.QPGIDIndex, 1), pairs...)
		if op == devx.OpINIT2RTR {
			gid := m.context().gidAt(1)
			copy(devx.QPGID.Raw(cmd), gid[:])
			devx.QPMTU.Put(cmd, 3)
		}
		return m.modify(h, cmd)
	}
}

func readsOut(m *maker, v int) {
	move := m.moving(2)
	require.NotZero(m, move(devx.OpRTR2RTS, devx.QPLogSRA, v+1).errno)
	m.ok(move(devx.OpRTR2RTS, devx.QPLogSRA, v))
}

func readsIn(m *maker, v int) {
	move := m.moving(1)
	require.NotZero(m, move(devx.OpINIT2RTR, devx.QPLogRRA, v+1).errno)
	m.ok(move(devx.OpINIT2RTR, devx.QPLogRRA, v))
}

func sourcePort(m *maker, v int) { m.ok(m.moving(1)(devx.OpINIT2RTR, devx.QPUDPPort, v)) }

// gids reads the last of n entries of the GID table, and requires that there are no more.
func gids(m *maker, n int) {
	ask := func(index int) answer {
		return m.general(set(mailbox(devx.OpQueryRoCEAddress), devx.RoCEIndex, index), devx.Find(devx.OpQueryRoCEAddress).OutSize)
	}
	m.ok(ask(n - 1))
	fails(m, devx.StatusBadParameter, ask(n))
}

func ports(m *maker, v int) {
	ask := func(port int) answer {
		return m.ioctl(m.ctx, abi.ObjectDevice, abi.MethodQueryPort, number(abi.AttrQueryPortPortNum, uint64(port)),
			arg{id: abi.AttrQueryPortResp, out: abi.QueryPortRespExSize})
	}
	m.ok(ask(v))
	require.NotZero(m, ask(v+1).errno)
}
