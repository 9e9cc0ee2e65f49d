//go:build linux && (amd64 || arm64)

package engine

import (
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/wqe"
)

// transports says which opcodes each kind of queue pair may execute (bit n: opcode n), and
// which transitions between states it has.
var transports = [...]struct {
	name        string
	opcodes     uint64
	transitions map[[2]uint8]transition
}{
	control.QPTypeRC:  {"RC", wqe.OpcodesOn(wqe.RC), rcTransitions},
	control.QPTypeUC:  {"UC", wqe.OpcodesOn(wqe.UC), ucTransitions},
	control.QPTypeUD:  {"UD", wqe.OpcodesOn(wqe.UD), udTransitions},
	control.QPTypeXRC: {"XRC", wqe.OpcodesOn(wqe.TransportXRC), xrcTransitions},
	control.QPTypeDCI: {"DCI", wqe.OpcodesOn(wqe.DC), dciTransitions},
	control.QPTypeDCT: {"DCT", 0, dctTransitions},
}
