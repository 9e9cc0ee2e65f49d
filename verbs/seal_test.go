package verbs

import (
	"os"
	"testing"

	"github.com/nicless/nicless/verbs/internal/abi"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// Memory into which its program can punch holes is not used. The server touches no byte of it,
// because an access would wait while a hole is punched.
func TestUnsealedMemoryIsNotUsed(t *testing.T) {
	p := newRig(t).program()
	cq := p.ok(p.createCQ(15, 0)).value[0]
	p.loose = true
	for name, use := range map[string]func() unix.Errno{
		"ring and record of a CQ": func() unix.Errno { return p.createCQ(15, 0).errno },
		"ring and record of a QP": func() unix.Errno { return p.createQP(abi.QPTRC, cq).errno },
		"a ring that was mapped": func() unix.Errno {
			_, _, errno := p.mmap(p.ctx, p.at, 1<<20, 0x114000)
			require.Zero(t, errno)
			return p.createCQ(15, 0).errno
		},
		"payload": func() unix.Errno {
			p.share(0x7000000, 0x2000)
			return p.regMR(0x7000000, 0x2000, 0x7000000, p.pd, abi.AccessLocalWrite).errno
		},
	} {
		before := len(p.p.memory.extents)
		require.Equal(t, unix.EFAULT, use(), name)
		all := p.p.memory.extents[before:]
		require.NotEmpty(t, all, name)
		for _, e := range all {
			var st unix.Stat_t
			require.NoError(t, unix.Fstat(int(e.mem.File().Fd()), &st))
			require.Zero(t, st.Blocks, "%s: a page of it was touched", name)
		}
	}
}

// Queues cannot use UAR pages that are not sealed.
func TestUnsealedRegistersAreNotUsed(t *testing.T) {
	r := newRig(t)
	r.loose = true
	p := r.program()
	r.loose = false // the memory of the queues is sealed now, but the UAR pages are not
	require.Equal(t, unix.EFAULT, p.createCQ(15, 0).errno)
	at, whole := p.mapUAR(p.ctx, uarOffset+uint64(p.uar-firstUAR)*pageSize)
	require.Equal(t, uint64(p.uar-firstUAR)*pageSize, at)
	require.Equal(t, uint64(uarPages*pageSize), whole)
	p.ok(p.createCQ(15, 0))
}

// Sealed memory cannot be mapped for writing again, so another process that uses the context
// has UAR pages of its own.
func TestRegistersOfAnotherProcess(t *testing.T) {
	s := newServing(t)
	a, b := s.rig(t), s.rig(t)
	p := a.program()
	h, _, _ := b.request(opAdopt, 0, nil, duplicated(a, []*os.File{p.socket})...)
	require.Zero(t, h.error)
	h, _, _ = b.request(opMmap, p.ctx, u64s(0x1000, pageSize, uarOffset, 3))
	require.Equal(t, int32(unix.EINVAL), h.error, "that is the other's")
	alloc := func(r *rig) uint32 {
		u := r.ok(r.allocUAR(p.ctx))
		return le.Uint32(u.bytes[abi.MLX5AttrUARObjAllocPageID])
	}
	require.Equal(t, uint32(uarPages+firstUAR), alloc(b))
	require.Equal(t, uint32(1+firstUAR), alloc(a))
	q := &program{rig: b, ctx: p.ctx, pd: p.pd, uar: uarPages + firstUAR, at: 0x700000000, async: b.ok(b.allocAsync(p.ctx)).value[0]}
	cq := q.ok(q.createCQ(15, 0)).value[0]
	q.ok(q.createQP(abi.QPTRC, cq))

	for range maxBanks - 2 {
		c := s.rig(t)
		h, _, _ := c.request(opAdopt, 0, nil, duplicated(a, []*os.File{p.socket})...)
		require.Zero(t, h.error)
		alloc(c)
	}
	c := s.rig(t)
	h, _, _ = c.request(opAdopt, 0, nil, duplicated(a, []*os.File{p.socket})...)
	require.Zero(t, h.error)
	u := c.allocUAR(p.ctx)
	require.Equal(t, unix.ENOMEM, u.errno)
}
