package cqe

import "testing"

// sinkWC keeps results alive.
var sinkWC WC

func BenchmarkWCParse(b *testing.B) {
	var req, resp, failed [Size]byte
	PutReq(&req, 0x1234, 7, opRDMAWrite, 3, 0, 1, MakeOpOwn(Req, FormatPlain, false, 0))
	PutResp(&resp, 0x1234, 7, 0x201, 9, 3, 64, 1, MakeOpOwn(RespSendImm, FormatPlain, true, 0))
	PutErr(&failed, 0x1234, 7, opSend, 3, RemoteAccess, 0x88, MakeOpOwn(ReqErr, FormatPlain, false, 0))
	for _, c := range []struct {
		name string
		src  *[Size]byte
	}{{"req", &req}, {"resp", &resp}, {"err", &failed}} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				sinkWC.Parse(c.src)
			}
		})
	}
}

func BenchmarkPut(b *testing.B) {
	var dst [Size]byte
	b.Run("req", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			PutReq(&dst, 0x1234, 7, opRDMAWrite, 3, 0, 1, 0)
		}
	})
	b.Run("resp", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			PutResp(&dst, 0x1234, 7, 0x201, 9, 3, 64, 1, 0x20)
		}
	})
	b.Run("cqe", func(b *testing.B) {
		b.ReportAllocs()
		c := CQE{QPN: 0x1234, ByteCount: 64}
		for b.Loop() {
			c.Put(&dst)
		}
	})
}
