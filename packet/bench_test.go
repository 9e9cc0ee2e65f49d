package packet_test

import (
	"testing"

	"github.com/nicless/nicless/packet"
)

var sink struct {
	bth packet.BTH
	sum uint32
}

func BenchmarkBTH(b *testing.B) {
	p := [packet.BTHSize]byte{0x0a, 0x40, 0xff, 0xff, 0, 0, 0, 0x14, 0x80, 0x0a, 0xd4, 0x5d}
	b.Run("parse", func(b *testing.B) {
		for b.Loop() {
			h := packet.ParseBTH(&p)
			sink.sum += h.PSN + h.DestQP + uint32(h.Opcode)
		}
	})
	b.Run("parse and keep", func(b *testing.B) {
		for b.Loop() {
			sink.bth = packet.ParseBTH(&p)
		}
	})
	b.Run("parse in place", func(b *testing.B) {
		for b.Loop() {
			sink.bth.Parse(&p)
		}
	})
	b.Run("put", func(b *testing.B) {
		var psn uint32
		for b.Loop() {
			psn = packet.AddPSN(psn, 1)
			packet.BTH{Opcode: 0x0a, Migrated: true, PKey: 0xffff, DestQP: 0x14, AckReq: psn&15 == 0, PSN: psn}.Put(&p)
		}
	})
	b.Run("put without a struct", func(b *testing.B) {
		var psn uint32
		for b.Loop() {
			psn = packet.AddPSN(psn, 1)
			packet.PutBTH(&p, 0x0a, false, 0, 0xffff, 0x14, psn&15 == 0, psn)
		}
	})
	b.Run("info", func(b *testing.B) {
		for b.Loop() {
			sink.sum += uint32(packet.Opcode(p[0]).Info().OffRETH)
		}
	})
}
