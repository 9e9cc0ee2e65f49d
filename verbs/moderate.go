//go:build linux && (amd64 || arm64)

package verbs

import "github.com/nicless/nicless/verbs/internal/abi"

// Limits of the moderation of completion events, which are those of the kernel's driver
// (MLX5_MAX_CQ_COUNT and MLX5_MAX_CQ_PERIOD). The period is in microseconds.
const (
	maxModerationCount  = 1<<16 - 1
	maxModerationPeriod = 1<<12 - 1

	cqModerate = 1 // IBV_CQ_ATTR_MODERATE of libibverbs
)

// modifyCQ serves EX_MODIFY_CQ: the request is struct ib_uverbs_ex_modify_cq. The refusals are
// those of ib_uverbs_ex_modify_cq in the kernel's uverbs_cmd.c and of mlx5_ib_modify_cq.
func modifyCQ(c *call, req []byte) error {
	mask, reserved := le.Uint32(req[abi.ExModifyCQAttrMask:]), le.Uint32(req[abi.ExModifyCQReserved:])
	count, period := le.Uint16(req[abi.ExModifyCQCount:]), le.Uint16(req[abi.ExModifyCQPeriod:])
	switch {
	case mask == 0 || reserved != 0:
		return refuse(eINVAL, "mask %#x, reserved %#x; moderation (%#x) and 0 are needed", mask, reserved, cqModerate)
	case mask > cqModerate:
		return refuse(eOPNOTSUPP, "mask %#x; moderation (%#x) is possible", mask, cqModerate)
	}
	q, err := lookup[*cq](c, "cq", le.Uint32(req[abi.ExModifyCQCQHandle:]), kindCQ)
	if err != nil {
		return err
	}
	if period > maxModerationPeriod {
		return refuse(eINVAL, "period of %d us; at most %d are possible", period, maxModerationPeriod)
	}
	return c.x.client.Moderate(q.number, count, period)
}
