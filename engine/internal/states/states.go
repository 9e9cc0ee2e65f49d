//go:build linux && (amd64 || arm64)

package states

import (
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/wqe"
)

// The states of queue pairs are one table, as in the kernel (qp_state_table in
// drivers/infiniband/core/verbs.c): for each transition it says which kinds of queue pair have it, which
// attributes a modify request must set, and which it may set (InfiniBand Architecture Specification,
// volume 1, 11.2.5.2). All other attributes are refused, except cur_state, which every transition takes.

// A kind is a column of the table: a transport, and on XRC and DC one side of it.
type kind uint8

const (
	kindRC kind = iota
	kindUC
	kindUD
	kindXRC    // sends only
	kindTarget // of XRC: receives only
	kindDCI
	kindDCT
	kinds
)

// masks has a mask of control.Attr* for each kind.
type masks [kinds]uint32

// A transition leads from one state to another.
type transition struct {
	of                 uint8 // bit n: kind n has it
	required, optional masks
}

const (
	peerKinds  = 1<<kindRC | 1<<kindUC | 1<<kindXRC | 1<<kindTarget // kinds with one peer
	drainKinds = peerKinds | 1<<kindUD                              // kinds with a queue that can be stopped
	sendKinds  = drainKinds | 1<<kindDCI
	allKinds   = sendKinds | 1<<kindDCT

	attrAccess    = control.AttrAccess
	attrInitial   = control.AttrPKeyIndex | control.AttrPort
	attrPeer      = control.AttrAV | control.AttrPathMTU | control.AttrDestQPN | control.AttrRQPSN
	attrResponder = control.AttrMaxDestRdAtom | control.AttrMinRNRTimer // with READs, atomics and receives
	attrRetries   = control.AttrTimeout | control.AttrRetryCount | control.AttrRNRRetry
	attrRequester = attrRetries | control.AttrSQPSN | control.AttrMaxRdAtomic // of a requester that retries
	attrTimer     = control.AttrMinRNRTimer
)

// laterMasks has the attributes that may be set again in all transitions after RTR.
var laterMasks = masks{
	kindRC: attrAccess | attrTimer, kindUC: attrAccess, kindUD: control.AttrQKey,
	kindXRC: attrAccess, kindTarget: attrAccess | attrTimer, kindDCI: attrTimer,
}

// table is indexed by the old and the new state. Every state may also go to RST and to ERR, without
// attributes; these transitions are not listed.
var table = [control.StateERR + 1][control.StateERR + 1]transition{
	control.StateRST: {
		control.StateINIT: {of: allKinds, required: masks{
			kindRC: attrInitial | attrAccess, kindUC: attrInitial | attrAccess,
			kindUD:  attrInitial | control.AttrQKey,
			kindXRC: attrInitial | attrAccess, kindTarget: attrInitial | attrAccess, kindDCI: attrInitial,
			kindDCT: attrInitial | attrAccess,
		}},
	},
	control.StateINIT: {
		control.StateINIT: {of: sendKinds, optional: masks{
			kindRC: attrInitial | attrAccess, kindUC: attrInitial | attrAccess,
			kindUD:  attrInitial | control.AttrQKey,
			kindXRC: attrInitial | attrAccess, kindTarget: attrInitial | attrAccess, kindDCI: attrInitial,
		}},
		control.StateRTR: {of: allKinds,
			required: masks{
				kindRC: attrPeer | attrResponder, kindUC: attrPeer, kindXRC: attrPeer,
				kindTarget: attrPeer | attrResponder,
				kindDCI:    control.AttrPathMTU, kindDCT: control.AttrPathMTU | attrTimer,
			},
			optional: masks{
				kindRC: attrAccess | control.AttrPKeyIndex, kindUC: attrAccess | control.AttrPKeyIndex,
				kindUD:  control.AttrQKey | control.AttrPKeyIndex,
				kindXRC: attrAccess | control.AttrPKeyIndex, kindTarget: attrAccess | control.AttrPKeyIndex,
				kindDCI: control.AttrPKeyIndex,
			},
		},
	},
	control.StateRTR: {
		// A DCT gets no further than RTR (mlx5_ib_modify_dct in the kernel's driver).
		control.StateRTS: {of: sendKinds,
			required: masks{
				kindRC: attrRequester, kindUC: control.AttrSQPSN, kindUD: control.AttrSQPSN,
				kindXRC: attrRequester, kindTarget: control.AttrTimeout | control.AttrSQPSN,
				kindDCI: attrRequester,
			},
			optional: laterMasks,
		},
	},
	control.StateRTS: {
		control.StateRTS: {of: sendKinds, optional: laterMasks},
		control.StateSQD: {of: drainKinds},
	},
	control.StateSQD: {
		control.StateRTS: {of: drainKinds, optional: laterMasks},
		control.StateSQD: {of: drainKinds, optional: masks{
			kindRC: attrAccess | attrInitial | control.AttrAV | attrRetries | control.AttrMaxRdAtomic |
				attrResponder,
			kindUC:     attrAccess | control.AttrPKeyIndex | control.AttrAV,
			kindUD:     control.AttrPKeyIndex | control.AttrQKey,
			kindXRC:    attrAccess | attrInitial | control.AttrAV | attrRetries | control.AttrMaxRdAtomic,
			kindTarget: attrAccess | attrInitial | control.AttrAV | control.AttrTimeout | attrResponder,
		}},
	},
	control.StateSQE: {
		control.StateRTS: {of: 1<<kindUC | 1<<kindUD, optional: laterMasks},
	},
}

// Transition returns which attributes a queue pair of a transport (control.QPType*) must and may set when it
// goes from one state to another. target says that it is a target of XRC. ok is false if there is no such
// transition.
func Transition(transport uint8, target bool, from, to uint8) (required, optional uint32, ok bool) {
	if to == control.StateRST || to == control.StateERR {
		return 0, 0, true
	}
	k := Transports[transport].kind
	if target {
		k = kindTarget
	}
	if int(from) >= len(table) || int(to) >= len(table[from]) || table[from][to].of>>k&1 == 0 {
		return 0, 0, false
	}
	t := &table[from][to]
	return t.required[k], t.optional[k], true
}

var names = [...]string{"RST", "INIT", "RTR", "RTS", "SQE", "SQD", "ERR"}

// Name returns the name of a state, for texts.
func Name(s uint8) string {
	if int(s) < len(names) {
		return names[s]
	}
	return "unknown"
}

// A Transport is what is the same for all queue pairs of a kind.
type Transport struct {
	Name    string
	Opcodes uint64 // bit n: opcode n may be executed
	kind    kind   // column of the table of states
}

// Transports is indexed by control.QPType*.
var Transports = [...]Transport{
	control.QPTypeRC:  {"RC", wqe.OpcodesOn(wqe.RC), kindRC},
	control.QPTypeUC:  {"UC", wqe.OpcodesOn(wqe.UC), kindUC},
	control.QPTypeUD:  {"UD", wqe.OpcodesOn(wqe.UD), kindUD},
	control.QPTypeXRC: {"XRC", wqe.OpcodesOn(wqe.TransportXRC), kindXRC},
	control.QPTypeDCI: {"DCI", wqe.OpcodesOn(wqe.DC), kindDCI},
	control.QPTypeDCT: {"DCT", 0, kindDCT},
}
