package hostpath

import (
	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/wqe"
)

// An Op is the operation of a send work request, by the verbs names.
type Op uint8

// Operations. WriteImm and SendImm carry SendWR.Imm, SendInval has the receiver
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
	OpMaskedFetchAdd       // atomic fetch and add in fields, 4 or 8 bytes
	OpBindList             // give a list key its list
	OpDump                 // local read whose bytes go nowhere: completes after all that is before it
	OpCopy                 // copy between two places of this side
	OpWaitCQ               // hold the queue until a CQ has got so many completions
	OpSendEnable           // let a managed queue execute up to an index
	numOps
)

// String returns the name, such as "WRITE_IMM".
func (o Op) String() string {
	if o < numOps {
		return ops[o].name
	}
	return "unknown operation"
}

// opcodes says which opcode an operation is posted with. Everything else that is
// always true of an operation follows from wqe's table: see makeOps.
var opcodes = [numOps]struct {
	name string
	code wqe.Opcode
	wc   cqe.WCOpcode // what a poller reports where the CQE does not tell; 0: verbs has no name for it
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

// opInfo is what posting and polling must know of an operation.
type opInfo struct {
	name       string
	code       wqe.Opcode
	transports wqe.Transports
	short      wqe.Transports // on which it may be built in place
	raddr      bool           // has a remote address segment
	payload    bool           // takes SGE
	message    bool           // goes to the address in SendWR.To on UD
	inline     bool           // takes Data
	leaves     uint8          // the fence that the WQE after it needs: it must not overtake a change of keys
	imm        uint32         // all ones where the control segment has SendWR.Imm
	wc         cqe.WCOpcode   // what a poller reports where the CQE does not tell
}

// ops is indexed by Op.
var ops = makeOps()

// makeOps derives what is true of each operation from the facts of its opcode.
func makeOps() (ops [numOps]opInfo) {
	for op, o := range opcodes {
		i := o.code.Info()
		info := opInfo{
			name: o.name, code: o.code, transports: i.Transports, raddr: i.Raddr, payload: i.DataMost > 0,
			message: i.Address && i.Transports.Has(UD), inline: i.Inline, wc: cqe.WCOpcode(i.WC),
		}
		if o.wc != 0 {
			info.wc = o.wc
		}
		if i.Imm == wqe.ImmData {
			info.imm = 1<<32 - 1
		}
		if i.Keys {
			info.leaves = wqe.FenceSmall
			info.transports &= connected // verbs has neither windows nor their invalidation on UD
		}
		// In place: control segment, perhaps a remote address, and data.
		if i.Address && i.Operand == wqe.KindNone && i.Imm != wqe.ImmInvalRKey {
			info.short = i.Transports & connected
		}
		ops[op] = info
	}
	return ops
}
