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

// A Transport is the kind of QP that a send queue belongs to, numbered as the
// st field of an mlx5 QP context.
type Transport uint8

// Transports.
const (
	RC Transport = 0 // reliable connection
	UC Transport = 1 // unreliable connection
	UD Transport = 2 // unreliable datagram
)

// String returns the name.
func (t Transport) String() string {
	switch t {
	case RC:
		return "RC"
	case UC:
		return "UC"
	case UD:
		return "UD"
	}
	return "unknown transport"
}

// hasImm keeps SendWR.Imm where it is masked for operations that have none.
const hasImm = 1<<32 - 1

// connected marks operations for both connected transports, anywhere for all.
const (
	connected = 1<<RC | 1<<UC
	anywhere  = connected | 1<<UD
)

// opInfo is what is always true of an operation.
type opInfo struct {
	name       string
	code       wqe.Opcode
	transports uint8        // bit t: possible on Transport t
	short      uint8        // the same, for what may be built in place
	raddr      bool         // has a remote address segment
	payload    bool         // takes SGE
	message    bool         // goes to the address in SendWR.To on UD
	inline     bool         // takes Data
	leaves     uint8        // the fence that the WQE after it needs: it must not overtake a change of keys
	imm        uint32       // all ones where the control segment has Imm
	wc         cqe.WCOpcode // what a poller reports where the CQE does not tell; verbs has no name for NOP
}

var ops = [numOps]opInfo{
	OpNop:         {name: "NOP", code: wqe.OpNop, transports: anywhere, wc: cqe.WCFromPost},
	OpWrite:       {name: "WRITE", code: wqe.OpRDMAWrite, transports: connected, short: connected, raddr: true, payload: true, inline: true, wc: cqe.WCRDMAWrite},
	OpWriteImm:    {name: "WRITE_IMM", code: wqe.OpRDMAWriteImm, transports: connected, short: connected, raddr: true, payload: true, inline: true, imm: hasImm, wc: cqe.WCRDMAWrite},
	OpRead:        {name: "READ", code: wqe.OpRDMARead, transports: 1 << RC, short: 1 << RC, raddr: true, payload: true, wc: cqe.WCRDMARead},
	OpSend:        {name: "SEND", code: wqe.OpSend, transports: anywhere, short: connected, payload: true, message: true, inline: true, wc: cqe.WCSend},
	OpSendImm:     {name: "SEND_IMM", code: wqe.OpSendImm, transports: anywhere, short: connected, payload: true, message: true, inline: true, imm: hasImm, wc: cqe.WCSend},
	OpSendInval:   {name: "SEND_INVAL", code: wqe.OpSendInval, transports: connected, payload: true, inline: true, wc: cqe.WCSend},
	OpCompareSwap: {name: "COMPARE_SWAP", code: wqe.OpAtomicCS, transports: 1 << RC, raddr: true, payload: true, wc: cqe.WCCompSwap},
	OpFetchAdd:    {name: "FETCH_ADD", code: wqe.OpAtomicFA, transports: 1 << RC, raddr: true, payload: true, wc: cqe.WCFetchAdd},
	OpLocalInval:  {name: "LOCAL_INVAL", code: wqe.OpUMR, transports: connected, leaves: wqe.FenceSmall, wc: cqe.WCLocalInv},
	OpBindMW:      {name: "BIND_MW", code: wqe.OpUMR, transports: connected, leaves: wqe.FenceSmall, wc: cqe.WCBindMW},

	OpMaskedCompareSwap: {name: "MASKED_COMPARE_SWAP", code: wqe.OpAtomicMaskedCS, transports: 1 << RC, raddr: true, payload: true, wc: cqe.WCCompSwap},
	OpMaskedFetchAdd:    {name: "MASKED_FETCH_ADD", code: wqe.OpAtomicMaskedFA, transports: 1 << RC, raddr: true, payload: true, wc: cqe.WCFetchAdd},
	OpBindList:          {name: "BIND_LIST", code: wqe.OpUMR, transports: connected, leaves: wqe.FenceSmall, wc: cqe.WCFromPost},
	OpDump:              {name: "DUMP", code: wqe.OpDump, transports: anywhere, payload: true, wc: cqe.WCFromPost},
	OpCopy:              {name: "COPY", code: wqe.OpMMO, transports: anywhere, payload: true, wc: cqe.WCFromPost},
	OpWaitCQ:            {name: "WAIT_CQ", code: wqe.OpWait, transports: anywhere, wc: cqe.WCFromPost},
	OpSendEnable:        {name: "SEND_ENABLE", code: wqe.OpSendEn, transports: anywhere, wc: cqe.WCFromPost},
}

// String returns the name, such as "WRITE_IMM".
func (o Op) String() string {
	if o < numOps {
		return ops[o].name
	}
	return "unknown operation"
}

// Flags are the verbs send flags, by their numbers. Whether data is inline is
// told by SendWR.Data alone.
type Flags uint8

// Flags of a SendWR.
const (
	Fence     Flags = 1 << 0 // start after earlier READs and atomics of this queue are done
	Signaled  Flags = 1 << 1 // deliver a completion on success too
	Solicited Flags = 1 << 2 // the receiver's completion raises a solicited event

	allFlags = Fence | Signaled | Solicited
)

// An SGE is a piece of local memory: Length bytes at Addr, which is an address
// as the key was registered with. Length is at most 1<<31.
type SGE struct {
	Addr   uint64
	Length uint32
	LKey   uint32
}

// A SendWR is a work request for a send queue. Its payload is either SGE or
// Data. Fields below them that the operation has no use for are ignored.
// Posting reads a SendWR and keeps nothing of it but ID.
type SendWR struct {
	ID    uint64 // comes back in the completion
	Op    Op
	Flags Flags

	// SGE is the local memory to gather from, or, for READ and atomics, to
	// scatter to. Entries of length 0 are skipped. An atomic takes one, as long
	// as what it works on: 8 bytes, and 4 for the masked ones. Dump takes one,
	// Copy two of one length, the source first.
	SGE []SGE

	// Data is a payload that travels inside the WQE. Its bytes are copied, so
	// they may be changed as soon as the request is posted.
	Data []byte

	RemoteAddr uint64
	RKey       uint32 // of RemoteAddr; for SendInval and LocalInval the key to invalidate
	Imm        uint32 // the immediate as a big-endian number: its bytes travel in that order

	SwapAdd uint64 // CompareSwap: the new value. FetchAdd: the addend
	Compare uint64 // CompareSwap: the value to find
	Mask    *Mask  // of the masked atomics

	To *Address // UD: the receiver

	Bind *Bind // BindMW only
	List *List // BindList only

	Queue uint32 // WaitCQ: the CQ's number. SendEnable: the QP's
	Index uint32 // WaitCQ: completions written, see CQ.Index. SendEnable: blocks, see QP.SendIndex
}

// A Mask says which bits a masked atomic compares and changes. Of operands of 4
// bytes the low halves count.
type Mask struct {
	Swap    uint64 // CompareSwap: bits that are replaced, if the comparison holds
	Compare uint64 // CompareSwap: bits that are compared; 0: it always holds
	// Boundary, of FetchAdd, has a bit set for the top bit of each field: no
	// carry leaves a field. 0 is one field.
	Boundary uint64
}

// An Address is where datagrams go: a queue pair and the way to it. One may be
// used for any number of sends.
type Address struct {
	AV   wqe.AV // Ext, DQP and Key are taken from the next two
	QPN  uint32 // 24 bits
	QKey uint32 // with bit 31 set: the sender's own
}

// A RecvWR is a work request for a receive queue: memory that a message fills,
// piece by piece. On an RQ, entries of length 0 are skipped.
type RecvWR struct {
	ID  uint64
	SGE []SGE
}
