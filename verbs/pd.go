//go:build linux && (amd64 || arm64)

package verbs

import (
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/verbs/internal/abi"
)

// A pd is a protection domain.
type pd struct {
	*object
	number uint32
}

// allocPD serves ALLOC_PD. The request is struct ib_uverbs_alloc_pd.
func allocPD(c *call, _ []byte) error {
	x := c.x
	if err := x.chargeObject(); err != nil {
		return err
	}
	m, _, err := x.request(control.OpAllocPD, &control.Empty{})
	if err != nil {
		x.refundObject()
		return err
	}
	p := &pd{number: m.(*control.PD).PDN}
	p.object = x.add(kindPD, p, func() error {
		if err := x.command(control.OpDeallocPD, &control.PD{PDN: p.number}); err != nil {
			return err
		}
		delete(x.domains, p.number)
		return nil
	}, nil)
	x.domains[p.number] = p
	c.put32(abi.AttrCoreOut, p.handle) // struct ib_uverbs_alloc_pd_resp
	c.put32(abi.AttrUHWOut, p.number)  // struct mlx5_ib_alloc_pd_resp
	return nil
}

func queryPD(c *call) error {
	c.put32(abi.MLX5AttrQueryPDRespPDN, objectOf[*pd](c, abi.MLX5AttrQueryPDHandle).number)
	return nil
}
