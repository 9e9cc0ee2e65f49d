//go:build linux && (amd64 || arm64)

package verbs

import (
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/verbs/internal/abi"
	"golang.org/x/sys/unix"
)

// Memory that is paged on demand (ODP) is what the program has at its addresses at the time of a
// transfer. The memory of a process is that already, if the kernel copies it. So such memory is
// never moved into shared memory, and nothing has to be mapped when it is registered.

// Operations that are possible with memory on demand: enum ibv_odp_general_caps and enum
// ibv_odp_transport_cap_bits of libibverbs. The kernel's headers for programs lack them.
const (
	odpSupport  = 1 << 0
	odpImplicit = 1 << 1

	odpSend    = 1 << 0
	odpRecv    = 1 << 1
	odpWrite   = 1 << 2
	odpRead    = 1 << 3
	odpAtomic  = 1 << 4
	odpSRQRecv = 1 << 5
)

// putODP stores the capabilities in struct ib_uverbs_ex_query_device_resp.
func putODP(b []byte) {
	le.PutUint64(b[abi.ExQueryDeviceRespODPCaps:], odpSupport|odpImplicit)
	le.PutUint32(b[abi.ExQueryDeviceRespODPRC:], odpSend|odpRecv|odpWrite|odpRead|odpAtomic|odpSRQRecv)
	le.PutUint32(b[abi.ExQueryDeviceRespODPUC:], odpSend|odpRecv|odpWrite|odpSRQRecv)
	le.PutUint32(b[abi.ExQueryDeviceRespODPUD:], odpSend|odpRecv|odpSRQRecv)
	le.PutUint32(b[abi.ExQueryDeviceRespXRCODPCaps:], odpSend|odpWrite|odpRead|odpAtomic|odpSRQRecv)
}

// adviseMR serves MR.ADVISE. The kernel of the program's machine pages its memory in when it is
// copied, so there is nothing to fetch before. The advice is checked, and with FLUSH the
// program gets an error if a transfer would fail.
func adviseMR(c *call) error {
	domain, advice, flags := objectOf[*pd](c, abi.AttrAdviseMRPDHandle), c.value(abi.AttrAdviseMRAdvice),
		c.value(abi.AttrAdviseMRFlags)
	pieces := c.bytes(abi.AttrAdviseMRSGEList)
	switch {
	case advice > abi.AdvicePrefetchNoFault:
		return refuse(eOPNOTSUPP, "advice %d; 0 to 2 are known", advice)
	case flags&^abi.AdviceFlush != 0:
		return refuse(eINVAL, "flags %#x; %#x is known", flags, uint64(abi.AdviceFlush))
	case len(pieces)%abi.SGESize != 0:
		return refuse(eINVAL, "%d bytes of pieces; a piece has %d", len(pieces), abi.SGESize)
	}
	regions := c.x.regionsOnDemand()
	for ; len(pieces) > 0; pieces = pieces[abi.SGESize:] {
		addr, n, key := le.Uint64(pieces[abi.SGEAddr:]), uint64(le.Uint32(pieces[abi.SGELength:])),
			le.Uint32(pieces[abi.SGELKey:])
		m := regions[key]
		switch {
		case m == nil || m.pd != domain:
			return refuse(eNOENT, "lkey %#x names no memory on demand of this protection domain", key)
		case advice == abi.AdvicePrefetchWrite && m.access&control.AccessLocalWrite == 0:
			return refuse(unix.EPERM, "lkey %#x: the memory may not be written", key)
		case addr < m.iova || n > m.length || addr-m.iova > m.length-n:
			return refuse(eFAULT, "%d bytes at %#x are not in the memory region with lkey %#x", n, addr, key)
		case flags&abi.AdviceFlush == 0 || advice == abi.AdvicePrefetchNoFault || n == 0 ||
			c.p.memory.maps == nil:
			continue
		}
		if err := c.p.memory.maps.over(addr-m.iova+m.addr, n, func(vma) error { return nil }); err != nil {
			return refuse(eFAULT, "advice: %v", err)
		}
	}
	return nil
}

// regionsOnDemand returns the memory regions that are paged on demand, by key.
func (x *uctx) regionsOnDemand() map[uint32]*mr {
	all := make(map[uint32]*mr)
	for _, o := range x.objects {
		if m, is := o.self.(*mr); is && m.onDemand {
			all[m.key] = m
		}
	}
	return all
}
