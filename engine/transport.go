package engine

import (
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/wqe"
)

// transports says what each kind of queue pair may execute (bit n: opcode n)
// and how its states follow each other.
var transports = [...]struct {
	name        string
	opcodes     uint64
	transitions map[[2]uint8]transition
}{
	control.QPTypeRC: {"RC", anywhere | connected | opcodes(wqe.OpSendInval, wqe.OpRDMARead, wqe.OpAtomicCS, wqe.OpAtomicFA,
		wqe.OpAtomicMaskedCS, wqe.OpAtomicMaskedFA), rcTransitions},
	control.QPTypeUC: {"UC", anywhere | connected | opcodes(wqe.OpSendInval), ucTransitions},
	control.QPTypeUD: {"UD", anywhere, udTransitions},
}

var (
	anywhere = opcodes(wqe.OpNop, wqe.OpSend, wqe.OpSendImm, wqe.OpUMR, wqe.OpDump, wqe.OpMMO, wqe.OpWait, wqe.OpSendEn)

	connected = opcodes(wqe.OpRDMAWrite, wqe.OpRDMAWriteImm)
)

func opcodes(list ...wqe.Opcode) (set uint64) {
	for _, o := range list {
		set |= 1 << o
	}
	return set
}
