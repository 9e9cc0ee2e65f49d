//go:build linux && (amd64 || arm64)

package object

import (
	"encoding/binary"

	"github.com/nicless/nicless/wqe"
)

func ParseHead(b *[wqe.CtrlSize]byte) Head {
	return Head{wqe.OpWord(binary.BigEndian.Uint64(b[:8])), wqe.FlagWord(binary.BigEndian.Uint64(b[8:]))}
}

func (h Head) Opcode() wqe.Opcode { return h.First.Opcode() }

func (h Head) DS() int { return h.First.DS() }

func (h Head) Blocks() int { return (h.DS() + 3) / 4 }

func (h Head) Signature() uint8 { return h.Second.Sig() }

func (h Head) CE() uint8 { return h.Second.CE() }

func (h Head) Solicited() bool { return h.Second.Flags()&wqe.FlagSolicited != 0 }

func (h Head) Imm() uint32 { return h.Second.Imm() }
