package wqe_test

import (
	"fmt"
	"testing"

	"github.com/nicless/nicless/wqe"
)

// BenchmarkPut writes the three segments of an RDMA WRITE, each at its offset.
func BenchmarkPut(b *testing.B) {
	var block [wqe.BlockSize]byte
	index := uint16(0)
	for b.Loop() {
		index++
		wqe.Ctrl{Opcode: wqe.OpRDMAWrite, Index: index, QPN: 0x102, DS: 3, Flags: wqe.CEAlways}.Put((*[wqe.CtrlSize]byte)(block[:]))
		aRaddr.Put((*[wqe.RaddrSize]byte)(block[16:]))
		aData.Put((*[wqe.DataSize]byte)(block[32:]))
	}
}

func BenchmarkParseCtrl(b *testing.B) {
	var src [wqe.CtrlSize]byte
	var sum uint32
	for b.Loop() {
		sum += wqe.ParseCtrl(&src).QPN
	}
	_ = sum
}

// BenchmarkBuildWrite builds RDMA WRITEs with a number of pointers.
func BenchmarkBuildWrite(b *testing.B) {
	for _, sges := range []int{1, 2, 8} {
		b.Run(fmt.Sprintf("sge=%d", sges), func(b *testing.B) {
			ring := make([]byte, 64*wqe.BlockSize)
			index := uint16(0)
			b.ReportAllocs()
			for b.Loop() {
				w := wqe.Start(ring, index)
				w.Raddr(aRaddr)
				for range sges {
					w.Data(aData)
				}
				blocks, err := w.Finish(wqe.Ctrl{Opcode: wqe.OpRDMAWrite, QPN: 0x102, Flags: wqe.CEAlways})
				if err != nil {
					b.Fatal(err)
				}
				index += uint16(blocks)
			}
		})
	}
}

// BenchmarkBuildInline builds RDMA WRITEs with inline data.
func BenchmarkBuildInline(b *testing.B) {
	for _, size := range []int{8, 28, 220} {
		b.Run(fmt.Sprintf("bytes=%d", size), func(b *testing.B) {
			ring := make([]byte, 64*wqe.BlockSize)
			src := make([]byte, size)
			index := uint16(0)
			b.ReportAllocs()
			for b.Loop() {
				w := wqe.Start(ring, index)
				w.Raddr(aRaddr)
				w.Inline(src)
				blocks, err := w.Finish(wqe.Ctrl{Opcode: wqe.OpRDMAWrite, QPN: 0x102, Flags: wqe.CEAlways})
				if err != nil {
					b.Fatal(err)
				}
				index += uint16(blocks)
			}
		})
	}
}

// BenchmarkParse parses RDMA WRITEs with a number of pointers and iterates over their data
// segments.
func BenchmarkParse(b *testing.B) {
	for _, sges := range []int{1, 8} {
		b.Run(fmt.Sprintf("sge=%d", sges), func(b *testing.B) {
			ring := make([]byte, 16*wqe.BlockSize)
			w := wqe.Start(ring, 0)
			w.Raddr(aRaddr)
			for range sges {
				w.Data(aData)
			}
			if _, err := w.Finish(wqe.Ctrl{Opcode: wqe.OpRDMAWrite}); err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			var sum uint64
			for b.Loop() {
				v, err := wqe.Parse(ring, wqe.NoAddress)
				if err != nil {
					b.Fatal(err)
				}
				for list := v.Data(); ; {
					d, _, ok := list.Next()
					if !ok {
						break
					}
					sum += d.Length()
				}
			}
			_ = sum
		})
	}
}
