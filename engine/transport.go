//go:build linux && (amd64 || arm64)

package engine

import (
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/wqe"
)

// A transport is what is the same for all queue pairs of a kind.
type transport struct {
	name    string
	opcodes uint64 // bit n: opcode n may be executed
	kind    kind   // column of the table of states
}

// transports is indexed by control.QPType*.
var transports = [...]transport{
	control.QPTypeRC:  {"RC", wqe.OpcodesOn(wqe.RC), kindRC},
	control.QPTypeUC:  {"UC", wqe.OpcodesOn(wqe.UC), kindUC},
	control.QPTypeUD:  {"UD", wqe.OpcodesOn(wqe.UD), kindUD},
	control.QPTypeXRC: {"XRC", wqe.OpcodesOn(wqe.TransportXRC), kindXRC},
	control.QPTypeDCI: {"DCI", wqe.OpcodesOn(wqe.DC), kindDCI},
	control.QPTypeDCT: {"DCT", 0, kindDCT},
}
