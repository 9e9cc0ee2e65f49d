package hostpath

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/nicless/nicless/internal/ring"
	"github.com/nicless/nicless/wqe"
)

var be = binary.BigEndian

// atomicSize is the size of the operand of CompareSwap and FetchAdd, in bytes.
const atomicSize = 8

// refuse returns the error for an unknown Op or unknown Flags.
func (q *SendRing) refuse(wr *SendWR) error {
	if wr.Op >= numOps {
		return fmt.Errorf("nicless: operation %d; 0 to %d are known", wr.Op, numOps-1)
	}
	return fmt.Errorf("nicless: %s with flags 0x%02x, of which 0x%02x are known", wr.Op, uint8(wr.Flags), uint8(allFlags))
}

// check checks wr and returns the size of its WQE in units of 16 bytes.
func (q *SendRing) check(wr *SendWR, op *opInfo) (units int, err error) {
	if !op.transports.Has(q.transport) {
		return 0, fmt.Errorf("nicless: %s on a %s queue", op.name, q.transport)
	}
	units = 1
	if q.transport == UD && op.message {
		if wr.To == nil {
			return 0, fmt.Errorf("nicless: %s on a UD queue without To", op.name)
		}
		units += wqe.AVSize / wqe.UnitSize
	}
	if op.raddr {
		units++
	}
	switch wr.Op {
	case OpCompareSwap, OpFetchAdd:
		units++
		if len(wr.SGE) != 1 || wr.SGE[0].Length != atomicSize {
			return 0, fmt.Errorf("nicless: %s with %d SGEs of %d bytes; one of %d is needed", op.name, len(wr.SGE), length(wr.SGE), atomicSize)
		}
	case OpMaskedCompareSwap, OpMaskedFetchAdd:
		n, err := wr.checkMasked(op)
		if err != nil {
			return 0, err
		}
		units += n
	case OpBindMW:
		if err := wr.Bind.check(); err != nil {
			return 0, err
		}
		units += wr.Bind.units()
	case OpBindList:
		if err := wr.List.check(); err != nil {
			return 0, err
		}
		units += wr.List.units()
	case OpLocalInval:
		units += umrUnits
	case OpDump, OpCopy:
		n, err := wr.checkLocal(op)
		return units + n, err
	case OpWaitCQ, OpSendEnable:
		if wr.Queue > ring.Mask24 {
			return 0, fmt.Errorf("nicless: %s of queue 0x%x, more than 24 bits", op.name, wr.Queue)
		}
		units++
	}
	n, err := q.checkPayload(wr, op)
	units += n
	if err == nil && units > q.maxUnits() {
		err = fmt.Errorf("nicless: WQE of %s has %d bytes, at most %d in this queue (QPConfig.MaxSendWR)", op.name, units*wqe.UnitSize, q.maxUnits()*wqe.UnitSize)
	}
	return units, err
}

// checkPayload checks the fields SGE and Data of wr and returns how many units of 16 bytes
// they take.
func (q *SendRing) checkPayload(wr *SendWR, op *opInfo) (units int, err error) {
	switch {
	case len(wr.Data) != 0 && !op.inline:
		return 0, fmt.Errorf("nicless: %s with %d inline bytes; it takes none", op.name, len(wr.Data))
	case len(wr.SGE) != 0 && !op.payload:
		return 0, fmt.Errorf("nicless: %s with %d SGEs; it takes none", op.name, len(wr.SGE))
	case len(wr.Data) != 0 && len(wr.SGE) != 0:
		return 0, errors.New("nicless: both SGE and Data")
	case len(wr.Data) > q.maxInline:
		return 0, fmt.Errorf("nicless: %d inline bytes, at most %d (QPConfig.MaxInline)", len(wr.Data), q.maxInline)
	case len(wr.SGE) > q.maxSGE:
		return 0, fmt.Errorf("nicless: %d SGEs, at most %d (QPConfig.MaxSendSGE)", len(wr.SGE), q.maxSGE)
	case len(wr.Data) != 0:
		return wqe.InlineUnits(len(wr.Data)), nil
	}
	for i := range wr.SGE {
		if n := wr.SGE[i].Length; n > maxLength {
			return 0, fmt.Errorf("nicless: SGE %d of %d bytes, at most %d", i, n, uint32(maxLength))
		} else if n != 0 {
			units++
		}
	}
	return units, nil
}

// maxLength is the size of the longest SGE, in bytes.
const maxLength = wqe.MaxPointer

// maxUnits returns the size of the longest WQE, in units of 16 bytes. The field DS and the
// size of the ring limit it.
func (q *SendRing) maxUnits() int { return min(wqe.MaxUnits, int(q.size)*wqe.BlockSize/wqe.UnitSize) }

// length returns the sum of the lengths of the SGEs in list.
func length(list []SGE) (n uint64) {
	for i := range list {
		n += uint64(list[i].Length)
	}
	return n
}

// blocks returns how many blocks of the ring a WQE of that many units takes.
func blocks(units int) uint64 { return uint64(units+3) / 4 }

// layLong writes and notes the WQE of any work request that check has accepted. Such a WQE
// may have several pointers, long inline data or a signature; it may be a datagram, an
// atomic, a change of keys or a local operation.
func (q *SendRing) layLong(count, blocks uint64, wr *SendWR, op *opInfo, fence uint8) {
	b := wqe.Start(q.ring, uint16(count))
	c := wqe.Ctrl{Opcode: op.code, QPN: q.qpn, Flags: q.flags(wr.Flags, fence), Imm: wr.Imm & op.imm}
	if q.transport == UD && op.message {
		av := wr.To.AV
		av.Ext, av.DQP, av.Key = true, wr.To.QPN, wqe.UDKey(wr.To.QKey)
		b.AV(av)
	}
	if op.raddr {
		b.Raddr(wqe.Raddr{Addr: wr.RemoteAddr, RKey: wr.RKey})
	}
	switch wr.Op {
	case OpSendInval:
		c.Imm = wr.RKey
	case OpCompareSwap, OpFetchAdd:
		b.Atomic(wqe.Atomic{SwapAdd: wr.SwapAdd, Compare: wr.Compare & op.compare})
	case OpLocalInval:
		c.Imm = wr.RKey
		(&Bind{Type: 2}).write(&b, q.qpn)
	case OpBindMW:
		c.Imm = wr.Bind.MW
		wr.Bind.write(&b, q.qpn)
	case OpMaskedCompareSwap, OpMaskedFetchAdd:
		c.OpMod = wr.putMasked(&b)
	case OpBindList:
		c.Imm = wr.List.Key
		wr.List.write(&b)
	case OpCopy:
		c.OpMod = wqe.OpModMMODMA
		b.MMOMeta(wqe.MMOMeta{})
	case OpWaitCQ: // the WQE names the last completion, which begin at 0
		b.Wait(wqe.Wait{Index: wr.Index - 1, Number: wr.Queue})
	case OpSendEnable:
		b.Wait(wqe.Wait{Index: wr.Index, Number: wr.Queue})
	}
	if len(wr.Data) != 0 {
		b.Inline(wr.Data)
	}
	for i := range wr.SGE {
		if s := &wr.SGE[i]; s.Length != 0 {
			b.Data(wqe.Data{ByteCount: s.Length &^ wqe.InlineFlag, LKey: s.LKey, Addr: s.Addr})
		}
	}
	var err error
	if q.signed {
		_, err = b.FinishSigned(c)
	} else {
		_, err = b.Finish(c)
	}
	if err != nil {
		panic("hostpath: a WQE that check has passed: " + err.Error())
	}
	if q.posts != nil {
		q.posts.note(count, count)
	}
	q.slots[count&(q.size-1)] = noted(wr.ID, blocks, wr.Op)
	for i := uint64(1); i < blocks; i++ {
		q.slots[(count+i)&(q.size-1)].note = 0 // no WQE begins here
	}
}
