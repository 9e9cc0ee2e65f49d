package cqe_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/wqe"
)

// The table of opcodes in package wqe has CQE opcodes and verbs opcodes as numbers, because the
// format packages do not import each other. The numbers are those of this package.
func TestInfoMatchesCQE(t *testing.T) {
	responses := map[wqe.Opcode]cqe.Opcode{
		wqe.OpSend: cqe.RespSend, wqe.OpSendImm: cqe.RespSendImm, wqe.OpSendInval: cqe.RespSendInv,
		wqe.OpRDMAWriteImm: cqe.RespWriteImm,
	}
	for n := range 256 {
		o := wqe.Opcode(n)
		i := o.Info()
		assert.Equal(t, responses[o], cqe.Opcode(i.Response), "%v: the peer's CQE", o)
		if !i.Known() {
			continue
		}
		entry := cqe.CQE{WQEOpcode: uint8(o), ByteCount: 77}
		w := entry.WC()
		assert.Equal(t, w.Opcode, cqe.WCOpcode(i.WC), "%v: the requester's completion", o)
		assert.Equal(t, i.Imm == wqe.ImmData, w.Flags == cqe.WCWithImm, "%v: the immediate's flag", o)
		if w.Opcode != cqe.WCFromPost {
			assert.Equal(t, i.Reads, w.HasByteLen(), "%v: bytes", o)
		}
	}
}
