package hostpath

import (
	"fmt"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/doorbell"
	"github.com/nicless/nicless/internal/ring"
	"github.com/nicless/nicless/internal/shm"
	"github.com/nicless/nicless/wqe"
)

// The functions in this file are those of RDMaxcel. They are stateless: each call handles
// one WQE or CQE, and its parameters contain everything that it needs. Hosts and
// accelerators call the same functions. Source: meta-pytorch/monarch,
// rdmaxcel-sys/src/rdmaxcel.h. The name in parentheses at the beginning of a comment is the
// name in that file.
//
// The functions differ from the original in three ways. The WQE index is cut to 16 bits; in
// the original, bits 16 to 23 of the index get into opmod. Records are published with
// release order. A receive is written to the slot of its index.

// WQEParams (wqe_params_t) are the parameters of SendWQE and RecvWQE. Each comment begins
// with the field's name in the original.
type WQEParams struct {
	LAddr    uint64     // laddr: local memory
	LKey     uint32     // lkey
	Length   uint32     // length, in bytes
	WRID     uint64     // wr_id: the count of the WQE, beginning with 0
	Signaled bool       // signaled: deliver a completion, and raise a solicited event at the receiver
	OpType   wqe.Opcode // op_type
	RAddr    uint64     // raddr: remote memory; only for SendWQE
	RKey     uint32     // rkey
	QPNum    uint32     // qp_num, 24 bits
	Buf      []byte     // buf: the ring
	DBRec    []byte     // dbrec: the QP's doorbell record, 8 bytes
	WQECnt   uint32     // wqe_cnt: entries of the ring, a power of two
}

func (p *WQEParams) check(stride int) error {
	if _, err := ring.Log2("hostpath: wqe_cnt", uint64(p.WQECnt), doorbell.MaxRing); err != nil {
		return err
	}
	if len(p.Buf) < stride*int(p.WQECnt) {
		return fmt.Errorf("hostpath: ring of %d bytes; %d entries need %d", len(p.Buf), p.WQECnt, stride*int(p.WQECnt))
	}
	if len(p.DBRec) < doorbell.RecordSize {
		return fmt.Errorf("hostpath: doorbell record of %d bytes; %d are needed", len(p.DBRec), doorbell.RecordSize)
	}
	return nil
}

// SendWQE (send_wqe) writes a WQE into the ring and the count of the next WQE into the
// record. The WQE has a remote address and one pointer, whatever its opcode is. The device
// may execute the WQE from then on.
func SendWQE(p WQEParams) error {
	if err := p.check(wqe.BlockSize); err != nil {
		return err
	}
	b := p.Buf[p.WRID&uint64(p.WQECnt-1)*wqe.BlockSize:][:wqe.BlockSize]
	p.ctrl(3).Put((*[wqe.CtrlSize]byte)(b))
	wqe.Raddr{Addr: p.RAddr, RKey: p.RKey}.Put((*[wqe.RaddrSize]byte)(b[unit1:]))
	wqe.Data{ByteCount: p.Length, LKey: p.LKey, Addr: p.LAddr}.Put((*[wqe.DataSize]byte)(b[unit2:]))
	shm.BE32At(p.DBRec, 4*doorbell.SendWord).Publish(uint32(p.WRID+1) & ring.Mask24)
	return nil
}

// AtomicWQE is SendWQE for atomics of 8 bytes, which RDMaxcel does not have. Its opcode is that of
// fetch-and-add or compare-and-swap. swapAdd is the addend or the new value; compare is only for
// compare-and-swap. The old value is written to the local memory, whose Length is 8.
func AtomicWQE(p WQEParams, swapAdd, compare uint64) error {
	if err := p.check(wqe.BlockSize); err != nil {
		return err
	}
	if p.OpType != wqe.OpAtomicFA && p.OpType != wqe.OpAtomicCS {
		return fmt.Errorf("hostpath: atomic of opcode %v; %v and %v are possible", p.OpType, wqe.OpAtomicFA, wqe.OpAtomicCS)
	}
	b := p.Buf[p.WRID&uint64(p.WQECnt-1)*wqe.BlockSize:][:wqe.BlockSize]
	p.ctrl(4).Put((*[wqe.CtrlSize]byte)(b))
	wqe.Raddr{Addr: p.RAddr, RKey: p.RKey}.Put((*[wqe.RaddrSize]byte)(b[unit1:]))
	wqe.Atomic{SwapAdd: swapAdd, Compare: compare}.Put((*[wqe.AtomicSize]byte)(b[unit2:]))
	wqe.Data{ByteCount: p.Length, LKey: p.LKey, Addr: p.LAddr}.Put((*[wqe.DataSize]byte)(b[unit3:]))
	shm.BE32At(p.DBRec, 4*doorbell.SendWord).Publish(uint32(p.WRID+1) & ring.Mask24)
	return nil
}

// ctrl returns the control segment of a WQE of so many units of 16 bytes.
func (p *WQEParams) ctrl(units uint8) wqe.Ctrl {
	c := wqe.Ctrl{Opcode: p.OpType, Index: uint16(p.WRID), QPN: p.QPNum & ring.Mask24, DS: units}
	if p.Signaled {
		c.Flags = wqe.CEAlways | wqe.FlagSolicited
	}
	return c
}

// RecvWQE (recv_wqe) writes a receive with one pointer into the ring and the count of the
// next receive into the record. All entries of the ring have the same size, len(Buf)/WQECnt
// bytes.
func RecvWQE(p WQEParams) error {
	if err := p.check(wqe.DataSize); err != nil {
		return err
	}
	stride := uint64(len(p.Buf)) / uint64(p.WQECnt)
	b := p.Buf[p.WRID&uint64(p.WQECnt-1)*stride:][:stride]
	wqe.Data{ByteCount: p.Length, LKey: p.LKey, Addr: p.LAddr}.Put((*[wqe.DataSize]byte)(b))
	if stride >= 2*wqe.DataSize {
		wqe.Data{LKey: wqe.KeyEnd}.Put((*[wqe.DataSize]byte)(b[wqe.DataSize:]))
	}
	shm.BE32At(p.DBRec, 4*doorbell.RecvWord).Publish(uint32(p.WRID + 1))
	return nil
}

// RingDB (db_ring) copies the 64 bytes of the WQE at src into the register at dst, eight
// bytes at a time. The first eight bytes are the doorbell. With BlueFlame, the device
// executes the WQE from these 64 bytes without reading the ring.
func RingDB(dst, src []byte) {
	for i := 0; i < wqe.BlockSize; i += 8 {
		shm.BE64At(dst, uint64(i)).Publish(be.Uint64(src[i:]))
	}
}

// CQEPollParams (cqe_poll_params_t) are the parameters of PollCQE. Each comment begins with
// the field's name in the original.
type CQEPollParams struct {
	CQEBuf        []byte // cqe_buf: the ring
	CQESize       uint32 // cqe_size, 64 or 128 bytes
	ConsumerIndex uint32 // consumer_index: count of the entry to check
	CQECnt        uint32 // cqe_cnt: entries of the ring, a power of two
	DBRec         []byte // dbrec: the CQ's doorbell record
}

// Results of PollCQE that are not byte counts.
const (
	CQENone   = -1 // there is no completion yet
	CQEFailed = -2 // the completion reports an error
)

// PollCQE (cqe_poll) checks one entry. If there is a completion, PollCQE publishes the
// consumer index after it, and returns CQEFailed or the byte count, which is 0 for writes and
// sends. Otherwise it returns CQENone.
func PollCQE(p CQEPollParams) (bytes int32, err error) {
	log, err := ring.Log2("hostpath: cqe_cnt", uint64(p.CQECnt), maxCQ)
	switch {
	case err != nil:
		return 0, err
	case p.CQESize != cqe.Size && p.CQESize != cqe.Size128:
		return 0, fmt.Errorf("hostpath: cqe_size %d; %d and %d are possible", p.CQESize, cqe.Size, cqe.Size128)
	case uint64(len(p.CQEBuf)) < uint64(p.CQESize)*uint64(p.CQECnt):
		return 0, fmt.Errorf("hostpath: ring of %d bytes; %d entries need %d", len(p.CQEBuf), p.CQECnt, p.CQESize*p.CQECnt)
	case len(p.DBRec) < doorbell.RecordSize:
		return 0, fmt.Errorf("hostpath: doorbell record of %d bytes; %d are needed", len(p.DBRec), doorbell.RecordSize)
	}
	end := uint64(p.ConsumerIndex&(p.CQECnt-1)+1) * uint64(p.CQESize)
	e := shm.BlockAt(p.CQEBuf, end-cqe.Size)
	o := cqe.OpOwn(e.ObserveTail())
	if !cqe.Valid(o, uint64(p.ConsumerIndex), log) {
		return CQENone, nil
	}
	bytes = CQEFailed
	if o.Opcode() < cqe.RespSendInv {
		bytes = int32(be.Uint32(e[cqe.OffByteCount:]))
	}
	shm.BE32At(p.DBRec, 4*doorbell.CIWord).Publish((p.ConsumerIndex + 1) & doorbell.CIMask)
	return bytes, nil
}
