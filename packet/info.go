package packet

// Info holds the facts of an opcode.
//
// The fields from XRCETH to Payload say what follows the BTH, in this order, except that
// the ICRC is left out. The field Off… of a header is its offset from the first byte of the
// BTH; it is 0 if the opcode does not have the header.
type Info struct {
	Name     string // such as "RC_SEND_ONLY"; empty if the opcode is not known
	Known    bool
	First    bool // begins a message
	Last     bool // ends a message; an ONLY packet and a request or answer of one packet have First and Last
	Request  bool // goes from requester to responder
	Response bool // goes from responder to requester; a CNP is neither

	XRCETH    bool
	DETH      bool
	RETH      bool
	AtomicETH bool
	AETH      bool
	AtomicAck bool
	Imm       bool
	IETH      bool
	Payload   bool // bytes may follow the headers
	Atomic    bool // requests an atomic: with an AtomicETH, or with a RETH and operands in the payload

	OffXRCETH    uint8
	OffDETH      uint8
	OffRETH      uint8
	OffAtomicETH uint8
	OffAETH      uint8
	OffAtomicAck uint8
	OffImm       uint8
	OffIETH      uint8

	HeaderSize int // bytes of the BTH and of all extension headers: offset of the payload
}

// Sizes of the headers in bytes.
const (
	BTHSize          = 12
	XRCETHSize       = 4
	DETHSize         = 8
	RETHSize         = 16
	AtomicETHSize    = 28
	AETHSize         = 4
	AtomicAckETHSize = 8
	ImmDtSize        = 4
	IETHSize         = 4
	ICRCSize         = 4
)

// MaxHeaders is the largest Info.HeaderSize, that of the XRC atomics.
const MaxHeaders = BTHSize + XRCETHSize + AtomicETHSize
