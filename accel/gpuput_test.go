//go:build !race

package accel_test

// The device copies a signal into memory that a kernel polls. The race detector takes that for a race of Go.

import (
	"encoding/binary"
	"os"
	"testing"

	"github.com/nicless/nicless"
	"github.com/nicless/nicless/accel"
	"github.com/nicless/nicless/accel/ptx"
	"github.com/stretchr/testify/require"
)

// Of include/nicless/pe.h and examples/gpuput/gpuput.cu.
const (
	peReserved      = 4096 // NICLESS_PE_RESERVED
	putThreads      = 80   // THREADS
	putTickets      = 1580 // TICKETS
	putReportOffset = 1 << 19
)

// A putPE is a processing element of nicless/put.h whose kernels run on a device of its own.
type putPE struct {
	qps     []*nicless.QP // to each PE
	heap    *nicless.MR
	room    *nicless.MR // the PE, the plan and the report
	stream  *accel.Stream
	program *ptx.Program
	dev     *accel.Device
}

func newPutPE(t *testing.T, ctx *nicless.Context, pd *nicless.PD, n, heap int, text string) *putPE {
	t.Helper()
	p := &putPE{qps: make([]*nicless.QP, n)}
	var err error
	for i := range p.qps {
		cq, err := ctx.CreateCQ(nicless.CQConfig{Collapsed: true})
		require.NoError(t, err)
		p.qps[i], err = pd.CreateQP(nicless.QPConfig{SendCQ: cq, MaxSendWR: 64})
		require.NoError(t, err)
	}
	p.heap, err = pd.RegisterMemory(peReserved+heap, nicless.FullAccess)
	require.NoError(t, err)
	p.room, err = pd.RegisterMemory(1<<20, nicless.FullAccess)
	require.NoError(t, err)
	p.dev, p.stream = newDevice(t, accel.Config{})
	p.program, err = p.dev.LoadPTX(ptx.Module{Name: "gpuput.ptx", Text: text})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.program.Close()) })
	return p
}

// reach gives the kernels of the PE access to memory, and returns its address.
func (p *putPE) reach(t *testing.T, memory []byte) (address uint64) {
	t.Helper()
	address, err := p.dev.Map(memory)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.dev.Unmap(memory)) })
	return address
}

// plan appends struct nicless_pe_plan of PE my, and its links.
func (p *putPE) plan(t *testing.T, my int, all []*putPE) (b []byte) {
	t.Helper()
	le := binary.LittleEndian
	heap := p.reach(t, p.heap.Bytes())
	for i, q := range p.qps {
		raw, err := q.Raw()
		require.NoError(t, err)
		if i == 0 {
			for _, v := range []uint64{
				heap, p.heap.Addr(), uint64(len(p.heap.Bytes())), uint64(len(raw.Send) / 64),
			} {
				b = le.AppendUint64(b, v)
			}
			for _, v := range []uint32{p.heap.LKey(), uint32(my), uint32(len(all)), 0} {
				b = le.AppendUint32(b, v)
			}
		}
		for _, memory := range [][]byte{raw.Send, raw.Record, raw.Register, raw.SendCQ.Ring} {
			b = le.AppendUint64(b, p.reach(t, memory))
		}
		b = le.AppendUint64(b, all[i].heap.Addr())
		b = le.AppendUint32(b, all[i].heap.RKey())
		b = le.AppendUint32(b, raw.QPN)
	}
	return b
}

func (p *putPE) launch(t *testing.T, name string, threads uint32, args ...any) {
	t.Helper()
	k, err := p.program.Kernel(name)
	require.NoError(t, err)
	l := ptx.Launch{Grid: [3]uint32{1, 1, 1}, Block: [3]uint32{threads, 1, 1}}
	require.NoError(t, p.stream.LaunchPTX(k, l, args...))
}

// The kernels of examples/gpuput, as clang has compiled them, put, get, signal, wait, and count by atomics:
// three PEs, of which each has a device. The kernels compare every word.
func TestGPUPut(t *testing.T) {
	const n, rounds = 3, 5
	text, err := os.ReadFile("testdata/gpuput.ptx")
	require.NoError(t, err)
	ctx, err := nicless.Open(nicless.Config{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, ctx.Close()) })
	pd, err := ctx.AllocPD()
	require.NoError(t, err)
	pes := make([]*putPE, n)
	for i := range pes {
		pes[i] = newPutPE(t, ctx, pd, n, 8*(putTickets+rounds*putThreads*n), string(text))
	}
	for i := range pes {
		require.NoError(t, pes[i].qps[i].Connect(pes[i].qps[i].Descriptor(), nicless.Connection{}))
		for k := range i {
			require.NoError(t, nicless.Pair(pes[i].qps[k], pes[k].qps[i], nicless.Connection{}))
		}
	}
	for i, p := range pes {
		room := p.reach(t, p.room.Bytes())
		plan, report := room+putReportOffset/2, room+putReportOffset
		copy(p.room.Bytes()[putReportOffset/2:], p.plan(t, i, pes))
		p.launch(t, "open_pe", 1, room, plan, report)
		require.NoError(t, p.stream.Sync())
	}
	for _, p := range pes {
		p.launch(t, "exchange_words", putThreads, ptx.AddressOf(p.room.Bytes()),
			ptx.AddressOf(p.heap.Bytes())+peReserved, rounds,
			ptx.AddressOf(p.room.Bytes())+putReportOffset)
	}
	for i, p := range pes {
		require.NoError(t, p.stream.Sync())
		report := p.room.Bytes()[putReportOffset:]
		require.Zero(t, binary.LittleEndian.Uint32(report), "wrong words of PE %d", i)
		require.Zero(t, binary.LittleEndian.Uint32(report[4:]), "error of PE %d in line %d", i, binary.LittleEndian.Uint32(report[8:]))
	}
	next := accel.Slice[uint64](accel.NewBuffer(pes[0].heap))[peReserved/8+putTickets-48]
	require.EqualValues(t, n*rounds*putThreads, next, "tickets that lanes have taken")
}
