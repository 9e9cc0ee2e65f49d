//go:build linux && (amd64 || arm64)

package nicless

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/nicless/nicless/accel"
	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/internal/await"
	"github.com/nicless/nicless/wqe"
	"github.com/stretchr/testify/require"
)

const (
	fileSize = 8 << 20
	fileFrom = 64 << 10 // offset of the part of the file that is used
)

// poolFile returns a file without a single zero, and all of it as another process maps it.
func poolFile(t *testing.T) (*os.File, []byte) {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "pool"))
	require.NoError(t, err)
	t.Cleanup(func() { _ = f.Close() })
	_, err = f.Write(bytes.Repeat([]byte{0xff}, fileSize))
	require.NoError(t, err)
	mem, err := syscall.Mmap(int(f.Fd()), 0, fileSize, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	require.NoError(t, err)
	t.Cleanup(func() { _ = syscall.Munmap(mem) })
	return f, mem
}

func openIn(t *testing.T, f *os.File) *Context {
	t.Helper()
	c, err := Open(Config{Memory: &Memory{File: f, Offset: fileFrom}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

// A foreigner has only the file, and a description of a queue pair in it.
type foreigner struct {
	t    *testing.T
	raw  Raw
	next uint64
}

// foreignPair returns a queue pair as a foreigner sees it. Its peer is in the same context.
func foreignPair(t *testing.T, pd *PD, mem []byte) *foreigner {
	t.Helper()
	var qps [2]*QP
	for i := range qps {
		cq, err := pd.ctx.CreateCQ(CQConfig{PollOnly: true, Entries: 16})
		require.NoError(t, err)
		qps[i], err = pd.CreateQP(QPConfig{SendCQ: cq, MaxSendWR: 16, MaxSendSGE: 1, MaxRecvWR: 4, MaxRecvSGE: 1})
		require.NoError(t, err)
	}
	require.NoError(t, Pair(qps[0], qps[1], Connection{}))
	l, err := qps[0].Layout()
	require.NoError(t, err)
	b, err := json.Marshal(l)
	require.NoError(t, err)
	var read RawLayout
	require.NoError(t, json.Unmarshal(b, &read))
	require.Equal(t, l, read)
	raw, err := read.In(mem)
	require.NoError(t, err)
	own, err := qps[0].Raw()
	require.NoError(t, err)
	require.Equal(t, own, raw) // the same sizes, and the same bytes
	require.NotSame(t, &own.Send[0], &raw.Send[0])
	own.Register[8] = byte(own.QPN)
	require.Equal(t, byte(own.QPN), raw.Register[8])
	return &foreigner{t: t, raw: raw}
}

// do posts a request of 8 bytes and returns the result of PollCQE.
func (x *foreigner) do(op wqe.Opcode, local, remote MemoryLayout) int32 {
	x.t.Helper()
	p := x.raw.SendParams()
	p.WRID, p.OpType, p.Signaled = x.next, op, true
	p.LAddr, p.LKey, p.Length = local.Addr, local.Key, 8
	p.RAddr, p.RKey = remote.Addr, remote.Key
	if op == wqe.OpAtomicFA {
		require.NoError(x.t, accel.AtomicWQE(p, 3, 0))
	} else {
		require.NoError(x.t, accel.SendWQE(p))
	}
	accel.RingDB(x.raw.Register, x.raw.Send[64*(x.next%uint64(p.WQECnt)):])
	n := int32(accel.CQENone)
	await.Until(x.t, "the completion comes", func() bool {
		var err error
		n, err = accel.PollCQE(x.raw.SendCQ.PollParams(uint32(x.next)))
		require.NoError(x.t, err)
		return n != accel.CQENone
	})
	x.next++
	return n
}

// registered returns registered memory of one page, as a foreigner sees it.
func registered(t *testing.T, pd *PD, mem []byte) (MemoryLayout, *accel.Buffer) {
	t.Helper()
	mr, err := pd.RegisterMemory(4096, FullAccess)
	require.NoError(t, err)
	l, err := mr.Layout()
	require.NoError(t, err)
	m, err := l.In(mem)
	require.NoError(t, err)
	require.Equal(t, make([]byte, 4096), m.Bytes())
	return l, accel.NewBuffer(m)
}

// A program that has only the file, and no connection to the engine, posts and polls.
func TestForeignPoster(t *testing.T) {
	f, all := poolFile(t)
	c := openIn(t, f)
	require.NoError(t, f.Close()) // Open has a descriptor of its own
	mem := all[fileFrom:]
	pd, err := c.AllocPD()
	require.NoError(t, err)
	x := foreignPair(t, pd, mem)
	near, mine := registered(t, pd, mem)
	far, theirs := registered(t, pd, mem)
	for i := range uint64(40) { // more than twice around the rings
		mine.Store(0, i+1)
		require.Zero(t, x.do(wqe.OpRDMAWrite, near, far))
		require.Equal(t, i+1, theirs.Load(0))
		theirs.Store(0, 100*i)
		require.EqualValues(t, 8, x.do(wqe.OpRDMARead, near, far))
		require.Equal(t, 100*i, mine.Load(0))
		require.EqualValues(t, 8, x.do(wqe.OpAtomicFA, near, far))
		require.Equal(t, 100*i, mine.Load(0))
		require.Equal(t, 100*i+3, theirs.Load(0))
	}
	require.Equal(t, bytes.Repeat([]byte{0xff}, fileFrom), all[:fileFrom], "bytes outside of the part")

	// A part of the memory has another key, and its own place.
	mr, err := pd.RegisterMemory(3*4096, FullAccess)
	require.NoError(t, err)
	whole, err := mr.Layout()
	require.NoError(t, err)
	half, err := mr.Register(4096+64, 128, RemoteRead|ZeroBased)
	require.NoError(t, err)
	l, err := half.Layout()
	require.NoError(t, err)
	require.Equal(t, MemoryLayout{Place: Place{Offset: whole.Offset + 4096 + 64, Size: 128}, Addr: 0, Key: half.RKey()}, l)
	require.NoError(t, half.Close())
	_, err = half.Layout()
	require.ErrorIs(t, err, ErrClosed)
}

// The engine outlives pages of the file that go. Queue pairs that do not use them go on.
func TestForeignMemoryGoes(t *testing.T) {
	f, all := poolFile(t)
	c := openIn(t, f)
	mem := all[fileFrom:]
	pd, err := c.AllocPD()
	require.NoError(t, err)
	unlucky, lucky := foreignPair(t, pd, mem), foreignPair(t, pd, mem)
	near, mine := registered(t, pd, mem)
	far, theirs := registered(t, pd, mem)
	_, err = pd.RegisterMemory(1<<20, FullAccess)
	require.NoError(t, err)
	lost, _ := registered(t, pd, mem)
	require.Zero(t, unlucky.do(wqe.OpRDMAWrite, near, lost))
	require.NoError(t, f.Truncate(fileFrom+int64(lost.Offset)))
	require.EqualValues(t, accel.CQEFailed, unlucky.do(wqe.OpRDMAWrite, near, lost))
	mine.Store(0, 7)
	require.Zero(t, lucky.do(wqe.OpRDMAWrite, near, far))
	require.EqualValues(t, 7, theirs.Load(0))
	_, err = pd.RegisterMemory(1<<20, FullAccess)
	require.ErrorContains(t, err, "the file was made shorter, or its file system is full")
}

// The engine outlives the loss of all its queues, registers and memory.
func TestForeignMemoryIsGone(t *testing.T) {
	f, all := poolFile(t)
	c := openIn(t, f)
	pd, err := c.AllocPD()
	require.NoError(t, err)
	x := foreignPair(t, pd, all[fileFrom:])
	near, _ := registered(t, pd, all[fileFrom:])
	require.Zero(t, x.do(wqe.OpRDMAWrite, near, near))
	require.NoError(t, f.Truncate(0))
	ctx := await.Context(t)
	for {
		e, err := c.NextEvent(ctx)
		require.NoError(t, err)
		if e.Explanation != nil && e.Explanation.Code == "memory-fault" {
			break
		}
	}
	_, err = pd.RegisterMemory(4096, FullAccess)
	require.ErrorContains(t, err, "the file was made shorter")
	other, err := Open(Config{}) // in memory of its own
	require.NoError(t, err)
	require.NoError(t, other.Close())
	s, err := c.Status()
	require.NoError(t, err)
	require.Equal(t, "running", s.State)
}

// Whatever a foreigner writes into its queue and its completion queue, others go on.
func TestForeignGarbage(t *testing.T) {
	f, all := poolFile(t)
	c := openIn(t, f)
	mem := all[fileFrom:]
	pd, err := c.AllocPD()
	require.NoError(t, err)
	bad, good := foreignPair(t, pd, mem), foreignPair(t, pd, mem)
	near, mine := registered(t, pd, mem)
	far, theirs := registered(t, pd, mem)
	require.EqualValues(t, accel.CQEFailed, bad.do(wqe.Opcode(0x77), near, far))
	w := cqe.ParseWC((*[cqe.Size]byte)(bad.raw.SendCQ.Ring))
	require.Equal(t, cqe.StatusLocQPOp, w.Status)
	for i := range uint64(50) {
		for _, b := range [][]byte{bad.raw.Send, bad.raw.Recv, bad.raw.Record, bad.raw.Register, bad.raw.SendCQ.Ring, bad.raw.SendCQ.Record} {
			for k := range b {
				b[k] = byte(k*int(i) + int(i*i)>>3)
			}
		}
		mine.Store(0, i+1)
		require.Zero(t, good.do(wqe.OpRDMAWrite, near, far))
		require.Equal(t, i+1, theirs.Load(0))
	}
}
