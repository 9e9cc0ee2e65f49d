package verbs

import (
	"testing"

	"github.com/nicless/nicless/verbs/internal/abi"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// A context has as many CQs, queue pairs and SRQs as QUERY_DEVICE tells, although the engine would make
// more. One that is destroyed makes room for another.
func TestQueuesAreAsManyAsTold(t *testing.T) {
	const few = 3
	p := newRig(t).program()
	x := p.context()
	limits := *x.limits
	require.Greater(t, limits.MaxQPs, queues(&limits, limits.MaxQPs))
	limits.MaxRegions = 4 * few / 3
	x.limits = &limits
	cq := p.ok(p.createCQ(7, 0)).value[abi.AttrCreateCQHandle]
	shared := func(more ...arg) answer {
		d := make([]byte, abi.MLX5CreateSRQSize)
		le.PutUint64(d[abi.MLX5CreateSRQBufAddr:], p.ring(1<<20))
		le.PutUint64(d[abi.MLX5CreateSRQDBAddr:], p.ring(pageSize))
		args := append(createSRQArgs(uint64(p.pd), d), arg{id: abi.AttrCreateSRQEventFD, data: p.async, optional: true})
		return p.ioctl(p.ctx, abi.ObjectSRQ, abi.MethodSRQCreate, args...)
	}
	for _, row := range []struct {
		told    int // where QUERY_DEVICE tells the limit
		has     int
		handle  uint16
		create  func() answer
		destroy func(h uint64) answer
	}{
		{abi.QueryDeviceRespMaxCQ, 1, abi.AttrCreateCQHandle, func() answer { return p.createCQ(7, 0) }, p.destroyCQ},
		{abi.QueryDeviceRespMaxQP, 0, abi.AttrCreateQPHandle, func() answer { return p.createQP(abi.QPTRC, cq) }, p.destroyQP},
		{abi.QueryDeviceRespMaxSRQ, 0, abi.AttrCreateSRQHandle, func() answer { return shared() }, func(h uint64) answer {
			return p.ioctl(p.ctx, abi.ObjectSRQ, abi.MethodSRQDestroy, arg{id: abi.AttrDestroySRQHandle, data: h},
				arg{id: abi.AttrDestroySRQResp, out: abi.DestroySRQRespSize})
		}},
	} {
		require.EqualValues(t, few, le.Uint32(x.attributes()[row.told:]))
		var h uint64
		for range few - row.has {
			h = p.ok(row.create()).value[row.handle]
		}
		require.Equal(t, unix.ENOMEM, row.create().errno)
		p.ok(row.destroy(h))
		p.ok(row.create())
		require.Equal(t, unix.ENOMEM, row.create().errno)
	}
}

// Targets of XRC are queue pairs too.
func TestTargetsAreAsManyAsTold(t *testing.T) {
	p := newRig(t).program()
	x := p.context()
	limits := *x.limits
	limits.MaxRegions = 4
	x.limits = &limits
	d := p.mustOpenXRCD(noFile, 0x40)
	create := func() answer {
		return p.createTarget(d, arg{id: abi.AttrCreateQPEventFD, data: p.async, optional: true})
	}
	for range queues(&limits, limits.MaxQPs) {
		p.ok(create())
	}
	require.Equal(t, unix.ENOMEM, create().errno)
}
