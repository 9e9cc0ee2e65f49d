package verbs

import (
	"strconv"
	"testing"

	"github.com/nicless/nicless/verbs/internal/abi"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func itoa(v int) string { return strconv.Itoa(v) }

// Attributes are refused with the error numbers that the kernel's uverbs_ioctl.c returns.
func TestAttributesAreChecked(t *testing.T) {
	p := newRig(t).program()
	query := func(args ...arg) unix.Errno {
		return p.ioctl(p.ctx, abi.ObjectDevice, abi.MethodQueryPort, args...).errno
	}
	port := func(n uint64) arg { return number(abi.AttrQueryPortPortNum, n) }
	room := func(n int) arg { return arg{id: abi.AttrQueryPortResp, out: n} }
	good := []arg{port(1), room(abi.QueryPortRespExSize)}
	const unknown = 9
	for _, c := range []struct {
		why  string
		args []arg
		want unix.Errno
	}{
		{"valid", good, 0},
		{"an unknown one that is mandatory", append(good[:2:2], number(unknown, 0)), unix.EPROTONOSUPPORT},
		{"an unknown one that is not", append(good[:2:2], arg{id: unknown, data: 1, inline: true, optional: true}), 0},
		{"one is missing", good[:1], unix.EINVAL},
		{"one is there twice", append(good[:2:2], good[0]), unix.EINVAL},
		{"too little room", []arg{port(1), room(abi.QueryPortRespSize - 1)}, unix.EINVAL},
		{"more room than the answer needs", []arg{port(1), room(100)}, 0},
		{"no such port", []arg{port(2), good[1]}, unix.EINVAL},
		{"a constant of 4 bytes", []arg{word(abi.AttrQueryPortPortNum, 1), good[1]}, unix.EINVAL},
	} {
		require.Equal(t, c.want, query(c.args...), c.why)
	}
	require.Equal(t, unix.EPROTONOSUPPORT, p.ioctl(p.ctx, abi.ObjectDevice, 77).errno, "no such method")
	require.Equal(t, unix.EPROTONOSUPPORT, p.ioctl(p.ctx, 99, 0).errno, "no such object")
	require.Equal(t, unix.ENOSPC, p.ioctl(p.ctx, abi.ObjectDevice, abi.MethodInvokeWrite, number(abi.AttrWriteCmd, abi.CmdQueryDevice)).errno, "the probe of libibverbs")
	require.Equal(t, unix.EOPNOTSUPP, p.write(p.ctx, 38, make([]byte, 8), 8).errno, "no such command")
	require.Equal(t, unix.EOPNOTSUPP, p.write(p.ctx, abi.CmdAllocPD, append(make([]byte, 15), 1), abi.AllocPDRespSize).errno, "a longer request with other bytes than 0")
	require.Zero(t, p.write(p.ctx, abi.CmdAllocPD, make([]byte, 16), abi.AllocPDRespSize).errno, "a longer request with zeros")
	require.Equal(t, unix.EBADF, p.ioctl(p.ctx+1, abi.ObjectDevice, abi.MethodQueryPort, good...).errno, "not a context of this process")
}

// A handle is valid only in one context, and only for one kind of object.
func TestHandles(t *testing.T) {
	r := newRig(t)
	p, q := r.program(), r.program()
	destroy := func(p *program, object uint16, h uint32) unix.Errno {
		method, id := uint16(abi.MethodPDDestroy), uint16(abi.AttrDestroyPDHandle)
		if object == abi.ObjectMR {
			method, id = abi.MethodMRDestroy, abi.AttrDestroyMRHandle
		}
		return p.ioctl(p.ctx, object, method, arg{id: id, data: uint64(h)}).errno
	}
	require.Equal(t, unix.EINVAL, destroy(p, abi.ObjectMR, p.pd), "a PD is no MR")
	require.Equal(t, unix.ENOENT, destroy(p, abi.ObjectPD, 4711))
	cq := p.ok(p.createCQ(15, 0)).value[0]
	require.Equal(t, unix.ENOENT, destroy(q, abi.ObjectPD, uint32(cq)), "of another context")
	qp := p.ok(p.createQP(abi.QPTRC, cq)).value[0]
	require.Equal(t, unix.EBUSY, destroy(p, abi.ObjectPD, p.pd), "a queue pair is in it")
	x := p.context()
	require.Equal(t, "1 QP", x.usersOf(x.objects[p.pd]))
	require.Equal(t, unix.EBUSY, p.destroyCQ(cq).errno)
	p.ok(p.destroyQP(qp))
	p.ok(p.destroyCQ(cq))
	require.Zero(t, destroy(p, abi.ObjectPD, p.pd))
	require.Empty(t, p.p.memory.extents, "memory goes with the last object in it")
}

// Private data of libmlx5 that describes no possible queue is refused.
func TestQueuesAreChecked(t *testing.T) {
	p := newRig(t).program()
	require.Equal(t, unix.EINVAL, p.createCQ(1<<22, 0).errno, "more entries than possible")
	for _, c := range []struct {
		why                string
		size               uint32
		compressed, format uint8
		want               unix.Errno
	}{
		{"compressed, hashes", 64, 1, abi.MLX5CQEResFormatHash, 0},
		{"compressed, checksums", 64, 1, abi.MLX5CQEResFormatCsum, 0},
		{"compressed, checksums and strides", 64, 1, abi.MLX5CQEResFormatCsumStrIdx, 0},
		{"compressed, no format", 64, 1, 0, unix.EINVAL},
		{"compressed, two formats", 64, 1, abi.MLX5CQEResFormatHash | abi.MLX5CQEResFormatCsum, unix.EINVAL},
		{"compressed, another format", 64, 1, 0x80, unix.EINVAL},
		{"compressed, 128 bytes", 128, 1, abi.MLX5CQEResFormatHash, 0},
		{"compressed, 128 bytes and another format", 128, 1, 0x80, unix.EINVAL},
		{"a format, but not compressed", 128, 0, 0x80, 0},
		{"a value that the kernel does not know", 64, 2, 0x80, 0},
	} {
		d := createCQDriver(p.ring(1<<20), p.ring(pageSize), p.uar)
		le.PutUint32(d[abi.MLX5CreateCQCQESize:], c.size)
		d[abi.MLX5CreateCQCQECompEn], d[abi.MLX5CreateCQCompFormat] = c.compressed, c.format
		got := p.ioctl(p.ctx, abi.ObjectCQ, abi.MethodCQCreate, createCQArgs(15, d)...)
		require.Equal(t, c.want, got.errno, c.why)
	}
	cq := p.ok(p.createCQ(15, 0)).value[0]
	const rawPacket, scatterFCS = 8, 1 << 8 // IB_UVERBS_QPT_RAW_PACKET, IB_UVERBS_QP_CREATE_SCATTER_FCS
	require.Equal(t, unix.EOPNOTSUPP, p.createQP(rawPacket, cq).errno, "raw packets")
	require.Equal(t, unix.EOPNOTSUPP, p.createQP(abi.QPTRC, cq, number(abi.AttrCreateQPFlags, scatterFCS)).errno, "creation flags")
	for _, c := range []struct {
		why           string
		sq, rq, shift uint32
		flags, uar    uint32
		want          unix.Errno
	}{
		{"not a power of two", 3, 8, 4, abi.MLX5QPFlagUARPageIndex, p.uar, unix.EINVAL},
		{"too long", 1 << 16, 8, 4, abi.MLX5QPFlagUARPageIndex, p.uar, unix.EINVAL},
		{"the product overflows", 16, 1 << 31, 31, abi.MLX5QPFlagUARPageIndex, p.uar, unix.EINVAL},
		{"entries too small", 16, 8, 3, abi.MLX5QPFlagUARPageIndex, p.uar, unix.EINVAL},
		{"no page", 16, 8, 4, 0, 0, unix.EINVAL},
		{"a page that was not allocated", 16, 8, 4, abi.MLX5QPFlagUARPageIndex, p.uar + 1, unix.EINVAL},
		{"a page far away", 16, 8, 4, abi.MLX5QPFlagUARPageIndex, 1 << 31, unix.EINVAL},
		{"no sends", 0, 8, 4, abi.MLX5QPFlagUARPageIndex, p.uar, 0},
		{"no receives", 16, 0, 0, abi.MLX5QPFlagUARPageIndex, p.uar, 0},
		{"neither", 0, 0, 0, abi.MLX5QPFlagUARPageIndex, p.uar, 0},
	} {
		d := createQPDriver(p.ring(1<<20), p.ring(pageSize), c.sq, c.rq, c.shift, c.flags, c.uar)
		got := p.createQPWith(abi.QPTRC, cq, []uint32{1, 1, 1, 1, 0}, d)
		require.Equal(t, c.want, got.errno, c.why)
	}
}

// Memory that does not exist or cannot be used is not registered.
func TestMemoryIsChecked(t *testing.T) {
	p := newRig(t).program()
	reg := func(start, n, iova uint64, pd, access uint32) unix.Errno {
		return p.regMR(start, n, iova, pd, access).errno
	}
	p.share(0x7000000, 0x4000)
	require.Zero(t, reg(0x7000000, 0x4000, 0x7000000, p.pd, abi.AccessLocalWrite))
	require.Zero(t, reg(0x7000010, 1, 0x7000010, p.pd, abi.AccessLocalWrite|1<<20), "relaxed ordering may be left out")
	require.Equal(t, unix.EINVAL, reg(0x7000010, 1, 0x7000011, p.pd, abi.AccessLocalWrite), "another offset in the page")
	require.Equal(t, unix.EINVAL, reg(0x7000000, 1, 0x7000000, p.pd, abi.AccessRemoteWrite), "remote write without local write")
	require.Equal(t, unix.EINVAL, reg(0x7000000, 0, 0x7000000, p.pd, abi.AccessLocalWrite), "nothing")
	require.Equal(t, unix.EINVAL, reg(0x7000000, 1, 0x7000000, p.pd+9, abi.AccessLocalWrite), "no PD")
	require.Equal(t, unix.EFAULT, reg(0x7003000, 0x2000, 0x7003000, p.pd, abi.AccessLocalWrite), "half of it is not shared, and the process cannot be looked at")
	require.Equal(t, unix.EFAULT, reg(^uint64(0)-0xfff, 0x2000, 0, p.pd, abi.AccessLocalWrite), "past the end")
	p.refit = true
	require.Equal(t, unix.EFAULT, p.createCQ(15, 0).errno, "the shim could not remap")
	p.refit = false
	p.ok(p.createCQ(15, 0))
}
