package wqe_test

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/nicless/nicless/wqe"
)

// rows calls check with every defined row of the table.
func rows(t *testing.T, check func(t *testing.T, o wqe.Opcode, i *wqe.Info)) {
	t.Helper()
	for n := range 256 {
		if o := wqe.Opcode(n); o.Info().Known() {
			t.Run(o.String(), func(t *testing.T) { check(t, o, o.Info()) })
		}
	}
}

// The shortest WQE is the sum of its segments, each in its shortest form.
func TestInfoUnits(t *testing.T) {
	rows(t, func(t *testing.T, o wqe.Opcode, i *wqe.Info) {
		size := wqe.CtrlSize + int(i.DataLeast)*wqe.DataSize
		if i.Eth {
			size += wqe.EthSize
		}
		if i.Raddr {
			size += wqe.RaddrSize
		}
		switch i.Operand {
		case wqe.KindMaskedCS8:
			size += wqe.MaskedCS4Size
		case wqe.KindUMRCtrl:
			size += wqe.UMRCtrlSize + wqe.MkeyContextSize
		default:
			size += i.Operand.Size()
		}
		assert.Equal(t, size, int(i.Units)*wqe.UnitSize, "bytes")
		assert.Equal(t, int(i.Units), i.LeastUnits(wqe.RC), "connected")
		if i.Address {
			size += wqe.CompactAVSize
		}
		for _, on := range []wqe.Transport{wqe.UD, wqe.DC} {
			assert.Equal(t, size/wqe.UnitSize, i.LeastUnits(on), "with a compact address vector")
		}
	})
}

// Facts of which one follows from another agree.
func TestInfoAgrees(t *testing.T) {
	rows(t, func(t *testing.T, o wqe.Opcode, i *wqe.Info) {
		assert.LessOrEqual(t, i.DataLeast, i.DataMost, "data segments")
		assert.False(t, i.Inline && (i.DataMost == 0 || i.Local != 0), "inline data is read only")
		if executed := i.Transports != 0; executed {
			assert.Less(t, uint8(o), uint8(64), "sets of executed opcodes have 64 bits")
			assert.Equal(t, i.Raddr, i.Remote != 0, "the key of a remote address gives a right")
			assert.Equal(t, i.Address, i.Raddr || i.Receive(), "operations with a peer have its address")
			assert.False(t, i.Raddr && i.Transports.Has(wqe.UD), "no remote addresses on UD")
		}
		if i.Reads {
			assert.True(t, i.Raddr, "reads from a remote address")
			assert.Equal(t, wqe.RightLocalWrite, i.Local, "writes what it has read")
			assert.Equal(t, wqe.Transports(1<<wqe.RC|1<<wqe.TransportXRC|1<<wqe.DC), i.Transports, "needs an answer")
		}
		assert.Equal(t, o == wqe.OpAtomicCS || o == wqe.OpAtomicFA || o == wqe.OpAtomicMaskedCS || o == wqe.OpAtomicMaskedFA,
			i.Atomic(), "atomics")
		assert.Equal(t, i.Atomic(), wqe.Ctrl{Opcode: o}.OperandSize() == 8, "operand of an atomic")
	})
}

// The sets of opcodes by transport, written out.
func TestOpcodesOn(t *testing.T) {
	set := func(list ...wqe.Opcode) (s uint64) {
		for _, o := range list {
			s |= 1 << o
		}
		return s
	}
	ud := set(wqe.OpNop, wqe.OpSend, wqe.OpSendImm, wqe.OpUMR, wqe.OpDump, wqe.OpMMO, wqe.OpWait, wqe.OpSendEn)
	uc := ud | set(wqe.OpRDMAWrite, wqe.OpRDMAWriteImm, wqe.OpSendInval)
	rc := uc | set(wqe.OpRDMARead, wqe.OpAtomicCS, wqe.OpAtomicFA, wqe.OpAtomicMaskedCS, wqe.OpAtomicMaskedFA)
	assert.Equal(t, rc, wqe.OpcodesOn(wqe.RC), "RC")
	assert.Equal(t, uc, wqe.OpcodesOn(wqe.UC), "UC")
	assert.Equal(t, ud, wqe.OpcodesOn(wqe.UD), "UD")
	assert.Equal(t, rc, wqe.OpcodesOn(wqe.TransportXRC), "XRC")
	assert.Equal(t, rc, wqe.OpcodesOn(wqe.DC), "DC")
	assert.Zero(t, wqe.OpcodesOn(4))
}

func TestInfoStrings(t *testing.T) {
	assert.Equal(t, "RC, UC, XRC, DC", wqe.OpRDMAWrite.Info().Transports.String())
	assert.Equal(t, "local write, remote atomic", (wqe.RightLocalWrite | wqe.RightRemoteAtomic).String())
	assert.Equal(t, "UD", wqe.UD.String())
	assert.Equal(t, "opcode 0x7f", wqe.Opcode(0x7f).String())
	assert.False(t, wqe.Opcode(0x7f).Info().Known())
}

// A row is half a cache line, so that no row is in two cache lines.
func TestInfoSize(t *testing.T) {
	assert.EqualValues(t, 32, reflect.TypeFor[wqe.Info]().Size())
}
