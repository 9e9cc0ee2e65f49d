package hostpath

import (
	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/wqe"
)

// A device may put a short message, or the result of a READ or an atomic, into the
// CQE. The poller then copies it to the memory that the work request names ("scatter
// to CQE"). Only QPs that were made with cs_req or cs_res have such CQEs, so nothing
// here is on the fast path.

// scatterSend copies the data of the CQE at q.ci to the list of a READ or atomic.
func (q *CQ) scatterSend(c *Completion, o cqe.OpOwn, sq *SendRing, count uint64, s slot) {
	data, ok := q.inline(c, o)
	if !ok {
		return
	}
	ctrl := wqe.ParseCtrl((*[wqe.CtrlSize]byte)(sq.block(count)[:]))
	i := ctrl.Opcode.Info()
	if !i.Reads || cqe.WCOpcode(i.WC) == cqe.WCFromPost {
		fail(c, cqe.RemoteInvalidRequest) // as libmlx5 does for an opcode that does not return data
		return
	}
	unit := int(i.Units - i.DataLeast)
	units := min(int(ctrl.DS), 4*int(s.blocks()))
	for ; unit < units && len(data) > 0; unit++ {
		at := unit * wqe.UnitSize
		b := sq.block(count + uint64(at/wqe.BlockSize))
		d := wqe.ParseData((*[wqe.DataSize]byte)(b[at%wqe.BlockSize:]))
		if data, ok = q.spread(data, d); !ok {
			fail(c, cqe.LocalProtection)
			return
		}
	}
	if len(data) > 0 {
		fail(c, cqe.LocalLength)
	}
}

// scatterRecv copies the data of the CQE at q.ci to the list of a receive.
func (q *CQ) scatterRecv(c *Completion, o cqe.OpOwn, list wqe.RecvList) {
	data, ok := q.inline(c, o)
	for ok && len(data) > 0 {
		d, more := list.Next()
		if !more {
			fail(c, cqe.LocalLength)
			return
		}
		if data, ok = q.spread(data, d); !ok {
			fail(c, cqe.LocalProtection)
		}
	}
}

// inline returns the data that the CQE at q.ci carries. If the CQE has no readable data,
// inline turns the completion into an error and returns false.
func (q *CQ) inline(c *Completion, o cqe.OpOwn) (data []byte, ok bool) {
	wide := q.shift == 7
	if o.Format() == cqe.FormatCompressed || o.Format() == cqe.FormatInline64 && !wide {
		fail(c, 0) // this queue has no such CQEs; there is no syndrome for that
		return nil, false
	}
	b := q.slot(q.ci)
	if wide {
		data, ok = cqe.Inline128((*[cqe.Size128]byte)(b))
	} else {
		data, ok = cqe.Inline((*[cqe.Size]byte)(b))
	}
	if !ok {
		fail(c, cqe.LocalLength)
	}
	return data, ok
}

// spread copies as much of data to the memory of d as d has room for, and returns the rest.
// It returns false if d names memory that CQConfig.Memory does not know.
func (q *CQ) spread(data []byte, d wqe.Data) ([]byte, bool) {
	n := int(min(uint64(len(data)), d.Length()))
	if q.memory == nil {
		return data, false
	}
	to := q.memory(d.LKey, d.Addr, n)
	if len(to) < n {
		return data, false
	}
	copy(to, data[:n])
	return data[n:], true
}

// fail turns a successful completion into an error that the poller has detected.
func fail(c *Completion, s cqe.Syndrome) {
	c.Status, c.Syndrome = s.Status(), s
	c.Opcode, c.Flags, c.ByteLen = 0, 0, 0
}
