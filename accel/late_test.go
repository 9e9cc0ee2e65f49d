//go:build !race

package accel_test

// The race detector does not know what orders the stores of lanes: see order_test.go.

import (
	"encoding/binary"
	"os"
	"testing"

	"github.com/nicless/nicless"
	"github.com/nicless/nicless/accel"
	"github.com/nicless/nicless/accel/ptx"
	"github.com/nicless/nicless/internal/await"
	"github.com/stretchr/testify/require"
)

// RDMaxcel's order: a WQE by 48 single bytes, the record by a volatile store, the doorbell by a later kernel.
// The system sees the record before bytes of the WQE, so a queue whose record announces work is not safe; nor
// does a release for the GPU help, but one for the system does. A queue that the register announces is safe
// with each of them, because the end of a kernel comes in between.
func TestBytesBeforeRecord(t *testing.T) {
	for _, c := range []struct {
		kernel string
		late   bool
	}{{"bytes", true}, {"bytes_gpu", true}, {"bytes_sys", false}} {
		t.Run(c.kernel, func(t *testing.T) {
			found := 0
			for seed := range uint64(20) {
				late := ptx.NewLate(seed)
				postBytes(t, c.kernel, late, nicless.DoorbellRegister)
				for _, o := range late.Overtakings() {
					if o.Second.Line == lastStore(t, c.kernel) {
						found++
						require.Equal(t, c.kernel, o.First.Kernel)
						require.Contains(t, o.String(), "no fence.acq_rel.sys")
						require.Less(t, o.First.Line, o.Second.Line)
						if c.kernel == "bytes_gpu" {
							require.Equal(t, "the GPU", o.Seen)
						}
					}
					require.NotEqual(t, "doorbell", o.Second.Kernel, o)
				}
			}
			require.Equal(t, c.late, found > 0, "%d", found)
		})
	}
}

// lastStore returns the line of the store of the record in testdata/bytes.ptx.
func lastStore(t *testing.T, kernel string) int {
	t.Helper()
	return map[string]int{"bytes": 48, "bytes_gpu": 90, "bytes_sys": 133}[kernel]
}

// postBytes posts some WRITEs, each by a kernel and then by the kernel doorbell, and checks that all are
// executed.
func postBytes(t *testing.T, kernel string, late *ptx.Late, doorbells nicless.Doorbells) {
	t.Helper()
	l := newLab(t, 4096, accel.Config{})
	text, err := os.ReadFile("testdata/bytes.ptx")
	require.NoError(t, err)
	program, err := l.dev.LoadPTX(ptx.Module{Name: "bytes.ptx", Text: string(text)})
	require.NoError(t, err)
	defer func() { require.NoError(t, program.Close()) }()
	post, err := program.Kernel(kernel)
	require.NoError(t, err)
	ring, err := program.Kernel("doorbell")
	require.NoError(t, err)
	var qps [2]*nicless.QP
	var cqs [2]*nicless.CQ
	for i := range qps {
		cqs[i], err = l.ctx.CreateCQ(nicless.CQConfig{PollOnly: true})
		require.NoError(t, err)
		qps[i], err = l.pd.CreateQP(nicless.QPConfig{SendCQ: cqs[i], MaxSendWR: 16, Doorbells: doorbells})
		require.NoError(t, err)
	}
	require.NoError(t, nicless.Pair(qps[0], qps[1], nicless.Connection{}))
	raw, err := qps[0].Raw()
	require.NoError(t, err)
	mr, err := l.pd.RegisterMemory(4096, nicless.FullAccess)
	require.NoError(t, err)
	data := accel.NewBuffer(mr)
	var at []uint64
	for _, b := range [][]byte{raw.Send, raw.Record, raw.Register, data.Bytes()} {
		address, err := l.dev.Map(b)
		require.NoError(t, err)
		at = append(at, address)
		defer func() { require.NoError(t, l.dev.Unmap(b)) }()
	}
	one := ptx.Launch{Grid: [3]uint32{1, 1, 1}, Block: [3]uint32{1, 1, 1}, Late: late}
	const wqes, target = 1024, 512 // offsets in data
	for i := range uint64(4) {
		w := data.Bytes()[wqes+64*i:]
		for k, v := range []uint64{
			i<<40 | 8<<32 | uint64(raw.QPN)<<8 | 3, 8 << 32,
			mr.Addr() + target + 8*i, uint64(mr.RKey()) << 32,
			8<<32 | uint64(mr.LKey()), mr.Addr() + 8*i,
		} {
			binary.BigEndian.PutUint64(w[8*k:], v)
		}
		data.Bytes()[8*i] = byte(i + 1)
		from := at[3] + wqes + 64*i
		var count [4]byte
		binary.BigEndian.PutUint32(count[:], uint32(i+1))
		require.NoError(t, l.stream.LaunchPTX(post, one, at[0]+64*i, from, at[1]+4,
			binary.LittleEndian.Uint32(count[:])))
		require.NoError(t, l.stream.LaunchPTX(ring, one, at[2]+256*(i%2), from))
		require.NoError(t, l.stream.Sync())
		await.Until(t, "the WRITE has been executed", func() bool { return data.Bytes()[target+8*i] == byte(i+1) })
	}
}
