package verbs

import (
	"testing"

	"github.com/nicless/nicless/verbs/internal/abi"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// Moderation of a CQ's events can be set, within limits.
func TestModifyCQ(t *testing.T) {
	r := newRig(t)
	p, other := r.program(), r.program()
	cq := uint32(p.ok(p.createCQ(15, 0)).value[abi.AttrCreateCQHandle])
	modify := func(p *program, handle, mask uint32, count, period uint16, reserved uint32) unix.Errno {
		b := le.AppendUint32(le.AppendUint32(nil, handle), mask)
		b = le.AppendUint32(le.AppendUint16(le.AppendUint16(b, count), period), reserved)
		return p.write(p.ctx, extended|abi.ExCmdModifyCQ, b, 0).errno
	}
	require.Zero(t, modify(p, cq, 1, 4, 1000, 0))
	require.Zero(t, modify(p, cq, 1, 0xffff, maxModerationPeriod, 0))
	require.Zero(t, modify(p, cq, 1, 0, 0, 0))
	require.Equal(t, unix.EINVAL, modify(p, cq, 1, 4, maxModerationPeriod+1, 0))
	require.Equal(t, unix.EINVAL, modify(p, cq, 0, 4, 1000, 0), "nothing to modify")
	require.Equal(t, unix.EINVAL, modify(p, cq, 1, 4, 1000, 1), "reserved")
	require.Equal(t, unix.EOPNOTSUPP, modify(p, cq, 3, 4, 1000, 0), "more than moderation")
	require.Equal(t, unix.EINVAL, modify(p, uint32(p.pd), 1, 4, 1000, 0), "a PD")
	require.Equal(t, unix.EINVAL, modify(other, 0xffff, 1, 4, 1000, 0), "nothing")
}
