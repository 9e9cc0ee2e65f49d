package verbs

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func itoa(v int) string { return strconv.Itoa(v) }

// What the kernel's uverbs_ioctl.c refuses, and with which number.
func TestAttributesAreJudged(t *testing.T) {
	p := newRig(t).program()
	port := func(args ...arg) unix.Errno { return p.ioctl(p.ctx, objDevice, 2, args...).errno }
	good := []arg{number(0, 1), {id: 1, out: 48}}
	for _, c := range []struct {
		why  string
		args []arg
		want unix.Errno
	}{
		{"as it should be", good, 0},
		{"an unknown one that matters", append(good[:2:2], number(9, 0)), unix.EPROTONOSUPPORT},
		{"an unknown one that does not", append(good[:2:2], arg{id: 9, data: 1, inline: true, optional: true}), 0},
		{"one is missing", good[:1], unix.EINVAL},
		{"one is there twice", append(good[:2:2], good[0]), unix.EINVAL},
		{"too little room", []arg{number(0, 1), {id: 1, out: 39}}, unix.EINVAL},
		{"more room than there is to say", []arg{number(0, 1), {id: 1, out: 100}}, 0},
		{"no such port", []arg{number(0, 2), {id: 1, out: 48}}, unix.EINVAL},
		{"a constant of 4 bytes", []arg{word(0, 1), {id: 1, out: 48}}, unix.EINVAL},
	} {
		require.Equal(t, c.want, port(c.args...), c.why)
	}
	require.Equal(t, unix.EPROTONOSUPPORT, p.ioctl(p.ctx, objDevice, 77).errno, "no such method")
	require.Equal(t, unix.EPROTONOSUPPORT, p.ioctl(p.ctx, 99, 0).errno, "no such object")
	require.Equal(t, unix.ENOSPC, p.ioctl(p.ctx, objDevice, 0, number(2, 1)).errno, "the probe of libibverbs")
	require.Equal(t, unix.EOPNOTSUPP, p.write(p.ctx, 0x26, make([]byte, 8), 8).errno, "no such command")
	require.Equal(t, unix.EOPNOTSUPP, p.write(p.ctx, 3, append(make([]byte, 15), 1), 4).errno, "a longer request that says something")
	require.Zero(t, p.write(p.ctx, 3, make([]byte, 16), 4).errno, "a longer request that says nothing")
	require.Equal(t, unix.EBADF, p.ioctl(p.ctx+1, objDevice, 2, good...).errno, "not a context of this process")
}

// Handles are good in one context, and for one kind of object.
func TestHandles(t *testing.T) {
	r := newRig(t)
	p, q := r.program(), r.program()
	destroy := func(p *program, object uint16, h uint32) unix.Errno {
		method := uint16(0)
		if object == objMR {
			method = 1
		}
		return p.ioctl(p.ctx, object, method, arg{id: 0, data: uint64(h)}).errno
	}
	require.Equal(t, unix.EINVAL, destroy(p, objMR, p.pd), "a PD is no MR")
	require.Equal(t, unix.ENOENT, destroy(p, objPD, 4711))
	cq := p.ok(p.createCQ(15, 0)).value[0]
	require.Equal(t, unix.ENOENT, destroy(q, objPD, uint32(cq)), "of another context")
	qp := p.ok(p.createQP(2, cq)).value[0]
	require.Equal(t, unix.EBUSY, destroy(p, objPD, p.pd), "a queue pair is in it")
	require.Equal(t, unix.EBUSY, p.ioctl(p.ctx, objCQ, 1, arg{id: 0, data: cq}, arg{id: 1, out: 8}).errno)
	p.ok(p.ioctl(p.ctx, objQP, 1, arg{id: 0, data: qp}, arg{id: 1, out: 4}))
	p.ok(p.ioctl(p.ctx, objCQ, 1, arg{id: 0, data: cq}, arg{id: 1, out: 8}))
	require.Zero(t, destroy(p, objPD, p.pd))
	require.Empty(t, p.p.memory.extents, "memory goes with the last object in it")
}

// Private data of libmlx5 that cannot be meant.
func TestQueuesAreJudged(t *testing.T) {
	p := newRig(t).program()
	require.Equal(t, unix.EINVAL, p.createCQ(1<<22, 0).errno, "more entries than possible")
	cq := p.ok(p.createCQ(15, 0)).value[0]
	require.Equal(t, unix.EOPNOTSUPP, p.createQP(8, cq).errno, "raw packets")
	require.Equal(t, unix.EOPNOTSUPP, p.createQP(2, cq, number(10, 1<<3)).errno, "creation flags")
	for _, c := range []struct {
		why           string
		sq, rq, shift uint32
		flags, uar    uint32
		want          unix.Errno
	}{
		{"not a power of two", 3, 8, 4, qpFlagUAR, p.uar, unix.EINVAL},
		{"too long", 1 << 16, 8, 4, qpFlagUAR, p.uar, unix.EINVAL},
		{"the product overflows", 16, 1 << 31, 31, qpFlagUAR, p.uar, unix.EINVAL},
		{"entries too small", 16, 8, 3, qpFlagUAR, p.uar, unix.EINVAL},
		{"no page", 16, 8, 4, 0, 0, unix.EINVAL},
		{"a page of nobody", 16, 8, 4, qpFlagUAR, p.uar + 1, unix.EINVAL},
		{"a page far away", 16, 8, 4, qpFlagUAR, 1 << 31, unix.EINVAL},
		{"no sends", 0, 8, 4, qpFlagUAR, p.uar, 0},
		{"no receives", 16, 0, 0, qpFlagUAR, p.uar, 0},
		{"nothing at all", 0, 0, 0, qpFlagUAR, p.uar, 0},
	} {
		d := u64s(p.ring(1<<20), p.ring(pageSize))
		d = append(d, u32s(c.sq, c.rq, c.shift, c.flags, 0, c.uar, 0, 0, 0, 0)...)
		got := p.ioctl(p.ctx, objQP, 0, arg{id: 0}, arg{id: 2, data: uint64(p.pd)}, arg{id: 4, data: cq}, arg{id: 5, data: cq}, arg{id: 7, in: u64s(1)},
			arg{id: 8, in: u32s(1, 1, 1, 1, 0)}, number(9, 2), arg{id: 13, out: 20}, arg{id: 14, out: 4}, arg{id: uhwIn, in: d})
		require.Equal(t, c.want, got.errno, c.why)
	}
}

// Memory that cannot be shared, or is nobody's.
func TestMemoryIsJudged(t *testing.T) {
	p := newRig(t).program()
	reg := func(start, n, iova uint64, pd, access uint32) unix.Errno {
		return p.write(p.ctx, 9, append(u64s(0, start, n, iova), u32s(pd, access)...), 12).errno
	}
	p.share(0x7000000, 0x4000)
	require.Zero(t, reg(0x7000000, 0x4000, 0x7000000, p.pd, 1))
	require.Zero(t, reg(0x7000010, 1, 0x7000010, p.pd, 1|1<<20), "relaxed ordering may be left out")
	require.Equal(t, unix.EINVAL, reg(0x7000010, 1, 0x7000011, p.pd, 1), "another offset in the page")
	require.Equal(t, unix.EINVAL, reg(0x7000000, 1, 0x7000000, p.pd, 2), "remote write without local write")
	require.Equal(t, unix.EINVAL, reg(0x7000000, 0, 0x7000000, p.pd, 1), "nothing")
	require.Equal(t, unix.EINVAL, reg(0x7000000, 1, 0x7000000, p.pd+9, 1), "no PD")
	require.Equal(t, unix.EOPNOTSUPP, reg(0x7000000, 1, 0x7000000, p.pd, 1|1<<6), "on demand")
	require.Equal(t, unix.EFAULT, reg(0x7003000, 0x2000, 0x7003000, p.pd, 1), "half of it is not shared, and the process cannot be looked at")
	require.Equal(t, unix.EFAULT, reg(^uint64(0)-0xfff, 0x2000, 0, p.pd, 1), "past the end")
	p.refit = true
	require.Equal(t, unix.EFAULT, p.createCQ(15, 0).errno, "the shim could not remap")
	p.refit = false
	p.ok(p.createCQ(15, 0))
}
