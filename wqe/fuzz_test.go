package wqe_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"testing"

	"github.com/nicless/nicless/field"
	"github.com/nicless/nicless/wqe"
)

// FuzzSendWQE checks that Parse never panics and returns either a view or an error, that parsing
// and putting back gives the same bytes, and that a WQE that can be parsed can be described.
func FuzzSendWQE(f *testing.F) {
	f.Add([]byte{}, uint8(0))                         // shorter than a control segment
	f.Add(make([]byte, wqe.BlockSize), uint8(0))      // ds 0
	f.Add(unhex("0000000aff0000ff"), uint8(6))        // cut in the control segment
	f.Add(sendWQE(wqe.OpSend, 0, 3), uint8(6))        // all-zero segments
	f.Add(sendWQE(wqe.OpRDMAWrite, 0, 63), uint8(2))  // the longest
	f.Add(sendWQE(wqe.OpUMR, 0, 13), uint8(0))        // a list that ends within a block
	f.Add(sendWQE(wqe.OpWait, 2, 3), uint8(0))        // the 32-byte form
	f.Add(sendWQE(wqe.Opcode(0xfe), 7, 4), uint8(0))  // undefined
	f.Add(sendWQE(wqe.OpTSO, 0, 8), uint8(4))         // an Ethernet segment because of the opcode
	f.Add(withInline(0x800003ff, 4), uint8(0))        // inline length past the end
	f.Add(withInline(0xffffffff, 16), uint8(0))       // with all reserved bits
	f.Add(repeatBeyond(0xffff), uint8(0))             // more repeat entries than there is room for
	f.Add(withInline(0x00000000, 4)[:48], uint8(255)) // an address that does not exist
	f.Fuzz(func(t *testing.T, b []byte, a uint8) {
		v, err := wqe.Parse(b, wqe.Address(a))
		tree, described := wqe.DescribeSend(b, wqe.Address(a))
		if err != nil {
			var format *wqe.FormatError
			if !errors.As(err, &format) {
				t.Fatalf("error of type %T: %v", err, err)
			}
			if described == nil || (tree != nil) != (len(b) >= wqe.CtrlSize) {
				t.Fatalf("does not parse (%v), and is described as %v", err, tree)
			}
			show(t, tree, b)
			return
		}
		if described != nil {
			t.Fatalf("parses but is not described: %v", described)
		}
		show(t, tree, b)
		if got := reencode(&v, b); !bytes.Equal(got, b) {
			t.Fatalf("parse then put, %v:\n in %x\nout %x", v.Address, b, got)
		}
	})
}

// FuzzRecvWQE is FuzzSendWQE for receive entries.
func FuzzRecvWQE(f *testing.F) {
	f.Add([]byte{}, false)
	f.Add(make([]byte, 16), false)                                          // all zero: 2^31 bytes at 0
	f.Add(make([]byte, 16), true)                                           // too short for an SRQ
	f.Add(unhex("00000000000001000000000000000000"), false)                 // empty
	f.Add(append(make([]byte, 24), 0, 0, 1, 0, 0, 0, 0, 0), true)           // no terminator, looks shifted
	f.Add(bytes.Repeat([]byte{0xff}, 64), true)                             // inline flags
	f.Add(append(unhex("0000000000000100ffff"), make([]byte, 6)...), false) // terminator with an address
	f.Fuzz(func(t *testing.T, b []byte, srq bool) {
		tree, err := wqe.DescribeRecv(b, srq)
		if (tree == nil) == (err == nil) {
			t.Fatalf("want one of value and error, got %v, %v", tree, err)
		}
		if err != nil {
			return
		}
		show(t, tree, b)
		out := make([]byte, len(b))
		list, at := b, 0
		if srq {
			next := (*[wqe.SRQNextSize]byte)(b)
			wqe.ParseSRQNext(next).Put((*[wqe.SRQNextSize]byte)(out))
			list, at = b[wqe.SRQNextSize:], wqe.SRQNextSize
		}
		var sges []wqe.Data
		for l := wqe.RecvList(list); ; {
			d, ok := l.Next()
			if !ok {
				break
			}
			sges = append(sges, d)
		}
		if !wqe.PutRecv(out[at:], sges) {
			t.Fatalf("%d entries came out of a stride of %d", len(sges), len(b))
		}
		at += len(sges) * wqe.DataSize
		if at < len(b) { // the terminator may have any address, and the bytes after it are stale
			at += wqe.DataSize / 2
			copy(out[at:], b[at:])
		}
		if !bytes.Equal(out, b) {
			t.Fatalf("list then put:\n in %x\nout %x", b, out)
		}
	})
}

// FuzzCtrl checks that any 16 bytes can be parsed as a control segment and put back.
func FuzzCtrl(f *testing.F) {
	f.Add(bytes.Repeat([]byte{0xff}, wqe.CtrlSize))
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) != wqe.CtrlSize {
			t.Skip()
		}
		in, out := [wqe.CtrlSize]byte(b), [wqe.CtrlSize]byte{}
		wqe.ParseCtrl(&in).Put(&out)
		if out != in {
			t.Errorf("parse then put:\n in %x\nout %x", in, out)
		}
	})
}

func show(t *testing.T, tree field.Tree, b []byte) {
	t.Helper()
	if _, err := json.Marshal(tree); err != nil {
		t.Fatal(err)
	}
	if err := tree.Print(io.Discard, b); err != nil {
		t.Fatal(err)
	}
}

// sendWQE returns a WQE whose segments are zeros.
func sendWQE(op wqe.Opcode, opmod uint8, ds uint8) []byte {
	b := make([]byte, int(ds)*wqe.UnitSize)
	wqe.Ctrl{Opcode: op, OpMod: opmod, DS: ds}.Put((*[wqe.CtrlSize]byte)(b))
	return b
}

// withInline returns a SEND whose first data segment has this byte count.
func withInline(byteCount uint32, ds uint8) []byte {
	b := sendWQE(wqe.OpSend, 0, ds)
	wqe.Data{ByteCount: byteCount, LKey: 0x100, Addr: 0x7f0000000000}.Put((*[wqe.DataSize]byte)(b[wqe.CtrlSize:]))
	return b
}

// repeatBeyond returns a UMR whose repeat block announces this many entries.
func repeatBeyond(entries uint16) []byte {
	b := sendWQE(wqe.OpUMR, 0, 12)
	b[wqe.CtrlSize] = wqe.UMRInline
	wqe.RepeatBlock{Op: wqe.RepeatOp, NumEntries: entries}.Put((*[wqe.RepeatBlockSize]byte)(b[128:]))
	return b
}
