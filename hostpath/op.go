package hostpath

import (
	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/wqe"
)

// An Op is the operation of a send work request. The names are those of verbs.
type Op uint8

// Operations. OpWriteImm and OpSendImm carry SendWR.Imm. OpSendInval makes the receiver
// invalidate SendWR.RKey.
const (
	OpNop               Op = iota
	OpWrite                // RDMA write
	OpWriteImm             // RDMA write that consumes a receive and delivers an immediate
	OpRead                 // RDMA read
	OpSend                 // message to a posted receive
	OpSendImm              // message with an immediate
	OpSendInval            // message that invalidates a key of the receiver
	OpCompareSwap          // atomic compare and swap, 8 bytes
	OpFetchAdd             // atomic fetch and add, 8 bytes
	OpLocalInval           // invalidate a memory window or list key of this side
	OpBindMW               // bind a memory window
	OpMaskedCompareSwap    // atomic compare and swap of some bits, 4 or 8 bytes
	OpMaskedFetchAdd       // atomic fetch and add in bit fields within 4 or 8 bytes
	OpBindList             // fill a list key
	OpDump                 // read local memory and discard the bytes; completes after all earlier work
	OpCopy                 // copy from local memory to local memory
	OpWaitCQ               // hold the queue until a CQ has had SendWR.Index completions
	OpSendEnable           // let a managed queue execute its blocks up to SendWR.Index
	numOps
)

// String returns the name, such as "WRITE_IMM".
func (o Op) String() string {
	if o < numOps {
		return ops[o].name
	}
	return "unknown operation"
}

// opcodes says with which opcode an operation is posted. All other constant facts about an
// operation come from the table of package wqe: see makeOps.
var opcodes = [numOps]struct {
	name string
	code wqe.Opcode
	wc   cqe.WCOpcode // the opcode that Poll reports if the CQE does not contain it; 0: verbs has no name
}{
	OpNop:               {name: "NOP", code: wqe.OpNop},
	OpWrite:             {name: "WRITE", code: wqe.OpRDMAWrite},
	OpWriteImm:          {name: "WRITE_IMM", code: wqe.OpRDMAWriteImm},
	OpRead:              {name: "READ", code: wqe.OpRDMARead},
	OpSend:              {name: "SEND", code: wqe.OpSend},
	OpSendImm:           {name: "SEND_IMM", code: wqe.OpSendImm},
	OpSendInval:         {name: "SEND_INVAL", code: wqe.OpSendInval},
	OpCompareSwap:       {name: "COMPARE_SWAP", code: wqe.OpAtomicCS},
	OpFetchAdd:          {name: "FETCH_ADD", code: wqe.OpAtomicFA},
	OpLocalInval:        {name: "LOCAL_INVAL", code: wqe.OpUMR, wc: cqe.WCLocalInv},
	OpBindMW:            {name: "BIND_MW", code: wqe.OpUMR, wc: cqe.WCBindMW},
	OpMaskedCompareSwap: {name: "MASKED_COMPARE_SWAP", code: wqe.OpAtomicMaskedCS, wc: cqe.WCCompSwap},
	OpMaskedFetchAdd:    {name: "MASKED_FETCH_ADD", code: wqe.OpAtomicMaskedFA, wc: cqe.WCFetchAdd},
	OpBindList:          {name: "BIND_LIST", code: wqe.OpUMR},
	OpDump:              {name: "DUMP", code: wqe.OpDump},
	OpCopy:              {name: "COPY", code: wqe.OpMMO},
	OpWaitCQ:            {name: "WAIT_CQ", code: wqe.OpWait},
	OpSendEnable:        {name: "SEND_ENABLE", code: wqe.OpSendEn},
}

// connected is the set of the connected transports.
const connected = wqe.Transports(1<<RC | 1<<UC)

// possible are the transports on which this package posts.
const possible = connected | 1<<UD

// opInfo contains the facts about an operation that posting and polling need.
type opInfo struct {
	name       string
	code       wqe.Opcode
	transports wqe.Transports
	short      wqe.Transports // transports on which its WQE may be built in place
	raddr      bool           // has a remote address segment
	payload    bool           // takes a payload in SendWR.SGE
	message    bool           // goes to the address in SendWR.To on UD
	inline     bool           // takes a payload in SendWR.Data
	atomic     bool           // works on 8 bytes, with the operands SwapAdd and Compare
	nextFence  uint8          // the fence of the next WQE, so that it does not overtake a change of keys
	compare    uint64         // all ones if the WQE contains SendWR.Compare
	imm        uint32         // all ones if the control segment contains SendWR.Imm
	wc         cqe.WCOpcode   // the opcode that a poller reports if the CQE does not contain it
}

// ops is indexed by Op.
var ops = makeOps()

// makeOps derives the facts about each operation from the facts about its opcode.
func makeOps() (ops [numOps]opInfo) {
	for op, o := range opcodes {
		i := o.code.Info()
		info := opInfo{
			name: o.name, code: o.code, transports: i.Transports & possible,
			raddr: i.Raddr, payload: i.DataMost > 0, message: i.Address && i.Transports.Has(UD),
			inline: i.Inline, wc: cqe.WCOpcode(i.WC),
		}
		if o.wc != 0 {
			info.wc = o.wc
		}
		if i.Imm == wqe.ImmData {
			info.imm = 1<<32 - 1
		}
		if i.Keys {
			info.nextFence = wqe.FenceSmall
			info.transports &= connected // on UD, verbs has neither windows nor invalidation of windows
		}
		info.atomic = i.Operand == wqe.KindAtomic
		if info.atomic && o.code == wqe.OpAtomicCS {
			info.compare = 1<<64 - 1
		}
		// A WQE built in place has a control segment, perhaps a remote address, perhaps the
		// operands of an atomic, and data.
		if i.Address && (i.Operand == wqe.KindNone || info.atomic) && i.Imm != wqe.ImmInvalRKey {
			info.short = i.Transports & connected
		}
		ops[op] = info
	}
	return ops
}
