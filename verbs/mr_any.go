//go:build linux && (amd64 || arm64)

package verbs

import (
	"math"

	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/verbs/internal/abi"
)

// regAnyMR serves MR.REG, by which ibv_reg_mr_ex registers either memory at an address or a dma-buf. There
// are no DMA handles here, so a call that names one is refused for its attribute.
func regAnyMR(c *call) error {
	m := &mr{length: c.value(abi.AttrRegMRLength), iova: c.value(abi.AttrRegMRIOVA),
		addr: c.value(abi.AttrRegMRAddr), pd: objectOf[*pd](c, abi.AttrRegMRPDHandle)}
	fd, offset := c.find(abi.AttrRegMRFD), c.find(abi.AttrRegMRFDOffset)
	byAddress := c.find(abi.AttrRegMRAddr) != nil
	flags := c.value(abi.AttrRegMRAccessFlags)
	if byAddress == (offset != nil) || byAddress == (fd != nil) {
		return refuse(eINVAL, "memory region: an address alone, or a descriptor and an offset are possible; given are address %v, descriptor %v, offset %v",
			byAddress, fd != nil, offset != nil)
	}
	var err error
	switch {
	case !byAddress:
		err = c.addDMABuf(m, int32(fd.data), c.value(abi.AttrRegMRFDOffset), flags)
	case flags > math.MaxUint32:
		err = refuse(eINVAL, "access %#x; %#x are known", flags, control.AccessAll)
	default:
		m.access, m.onDemand, err = access(uint32(flags))
		if err == nil {
			err = c.addMR(m)
		}
	}
	if err != nil {
		return err
	}
	c.putHandle(abi.AttrRegMRHandle, m.object)
	c.put32(abi.AttrRegMRRespLKey, m.key)
	c.put32(abi.AttrRegMRRespRKey, m.key)
	return nil
}
