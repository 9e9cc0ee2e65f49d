package hostpath

import (
	"fmt"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/doorbell"
	"github.com/nicless/nicless/internal/ring"
	"github.com/nicless/nicless/internal/shm"
	"github.com/nicless/nicless/wqe"
)

// The functions of this file are RDMaxcel's: stateless, one WQE or CQE per call,
// with everything they need in their parameters. Hosts and accelerators call the
// same functions. Source: meta-pytorch/monarch, rdmaxcel-sys/src/rdmaxcel.h.
//
// They differ from the original in three places. The index is cut to its 16 bits;
// bits 16 to 23 of the original's end up in opmod. Records are published with
// release order. A receive goes to the slot of its index.

// WQEParams are the parameters of SendWQE and RecvWQE: wqe_params_t.
type WQEParams struct {
	LAddr    uint64     // laddr: local memory
	LKey     uint32     // lkey
	Length   uint32     // length, in bytes
	WRID     uint64     // wr_id: the count of the WQE, from 0 on
	Signaled bool       // signaled: complete, as a solicited event
	OpType   wqe.Opcode // op_type
	RAddr    uint64     // raddr: remote memory; of sends
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

// SendWQE writes a WQE with a remote address and one pointer, whatever the
// opcode, into the ring, and its count into the record: send_wqe. The device
// may execute it from then on.
func SendWQE(p WQEParams) error {
	if err := p.check(wqe.BlockSize); err != nil {
		return err
	}
	b := p.Buf[p.WRID&uint64(p.WQECnt-1)*wqe.BlockSize:][:wqe.BlockSize]
	c := wqe.Ctrl{Opcode: p.OpType, Index: uint16(p.WRID), QPN: p.QPNum & ring.Mask24, DS: 3}
	if p.Signaled {
		c.Flags = wqe.CEAlways | wqe.FlagSolicited
	}
	c.Put((*[wqe.CtrlSize]byte)(b))
	wqe.Raddr{Addr: p.RAddr, RKey: p.RKey}.Put((*[wqe.RaddrSize]byte)(b[unit1:]))
	wqe.Data{ByteCount: p.Length, LKey: p.LKey, Addr: p.LAddr}.Put((*[wqe.DataSize]byte)(b[unit2:]))
	shm.BE32At(p.DBRec, 4*doorbell.SendWord).Publish(uint32(p.WRID+1) & ring.Mask24)
	return nil
}

// RecvWQE writes a receive of one pointer into the ring, whose entries are all
// of one size, and its count into the record: recv_wqe.
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

// RingDB copies the 64 bytes of the WQE at src into the register at dst, eight
// at a time: db_ring. The first eight are the doorbell; the rest is what
// BlueFlame executes without reading the ring.
func RingDB(dst, src []byte) {
	for i := 0; i < wqe.BlockSize; i += 8 {
		shm.BE64At(dst, uint64(i)).Publish(be.Uint64(src[i:]))
	}
}

// CQEPollParams are the parameters of PollCQE: cqe_poll_params_t.
type CQEPollParams struct {
	CQEBuf        []byte // cqe_buf: the ring
	CQESize       uint32 // cqe_size, 64 or 128 bytes
	ConsumerIndex uint32 // consumer_index: count of the entry to look at
	CQECnt        uint32 // cqe_cnt: entries of the ring, a power of two
	DBRec         []byte // dbrec: the CQ's doorbell record
}

// Results of PollCQE that are no count of bytes.
const (
	CQENone   = -1 // there is no completion yet
	CQEFailed = -2 // the completion reports an error
)

// PollCQE looks at one entry: cqe_poll. If a completion is there it returns its
// byte count, which is 0 for writes and sends, or CQEFailed, and publishes the
// consumer index behind it.
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
