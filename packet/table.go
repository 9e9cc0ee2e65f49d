package packet

// An operation is the part of an opcode's facts that does not depend on the service.
type operation struct {
	name     string
	services uint8 // services that have the operation: bit s stands for Service s
	part     part
	response bool
	headers  headers
}

// A part is the place of a packet in its message.
type part uint8

const (
	middle part = 0
	first  part = 1
	last   part = 2
	only   part = first | last
)

// headers is a set of what follows the BTH.
type headers uint8

const (
	reth headers = 1 << iota
	atomicETH
	aeth
	atomicAck
	imm
	ieth
	payload
	operands // of a masked atomic: a payload of 16 or 32 bytes
)

const (
	onRC  = 1<<RC | 1<<XRC
	onUC  = onRC | 1<<UC
	onAll = onUC | 1<<UD
)

// operations is indexed by operation.
var operations = [32]operation{
	SendFirst:          {"SEND_FIRST", onUC, first, false, payload},
	SendMiddle:         {"SEND_MIDDLE", onUC, middle, false, payload},
	SendLast:           {"SEND_LAST", onUC, last, false, payload},
	SendLastImm:        {"SEND_LAST_IMM", onUC, last, false, imm | payload},
	SendOnly:           {"SEND_ONLY", onAll, only, false, payload},
	SendOnlyImm:        {"SEND_ONLY_IMM", onAll, only, false, imm | payload},
	WriteFirst:         {"WRITE_FIRST", onUC, first, false, reth | payload},
	WriteMiddle:        {"WRITE_MIDDLE", onUC, middle, false, payload},
	WriteLast:          {"WRITE_LAST", onUC, last, false, payload},
	WriteLastImm:       {"WRITE_LAST_IMM", onUC, last, false, imm | payload},
	WriteOnly:          {"WRITE_ONLY", onUC, only, false, reth | payload},
	WriteOnlyImm:       {"WRITE_ONLY_IMM", onUC, only, false, reth | imm | payload},
	ReadRequest:        {"READ_REQUEST", onRC, only, false, reth},
	ReadResponseFirst:  {"READ_RESPONSE_FIRST", onRC, first, true, aeth | payload},
	ReadResponseMiddle: {"READ_RESPONSE_MIDDLE", onRC, middle, true, payload},
	ReadResponseLast:   {"READ_RESPONSE_LAST", onRC, last, true, aeth | payload},
	ReadResponseOnly:   {"READ_RESPONSE_ONLY", onRC, only, true, aeth | payload},
	Acknowledge:        {"ACKNOWLEDGE", onRC, only, true, aeth},
	AtomicAcknowledge:  {"ATOMIC_ACKNOWLEDGE", onRC, only, true, aeth | atomicAck},
	CompareSwap:        {"COMPARE_SWAP", onRC, only, false, atomicETH},
	FetchAdd:           {"FETCH_ADD", onRC, only, false, atomicETH},
	SendLastInv:        {"SEND_LAST_INVALIDATE", onRC, last, false, ieth | payload},
	SendOnlyInv:        {"SEND_ONLY_INVALIDATE", onRC, only, false, ieth | payload},
	MaskedCompareSwap:  {"MASKED_COMPARE_SWAP", onRC, only, false, reth | operands},
	MaskedFetchAdd:     {"MASKED_FETCH_ADD", onRC, only, false, reth | operands},
	Report:             {"REPORT", onRC, only, true, payload},
}

var infos = makeInfos()

func makeInfos() (table [256]Info) {
	for o := range table {
		table[o] = makeInfo(Opcode(o))
	}
	// The payload of a CNP is 16 reserved bytes.
	table[OpCNP] = Info{Name: "CNP", Known: true, First: true, Last: true, Payload: true, HeaderSize: BTHSize}
	return table
}

func makeInfo(o Opcode) Info {
	s, op := o.Service(), operations[o.Operation()]
	if op.services>>s&1 == 0 {
		return Info{HeaderSize: BTHSize}
	}
	has := func(h headers) bool { return op.headers&h != 0 }
	i := Info{
		Name: s.String() + "_" + op.name, Known: true,
		First: op.part&first != 0, Last: op.part&last != 0,
		Request: !op.response, Response: op.response,
		XRCETH: s == XRC && !op.response, DETH: s == UD,
		RETH: has(reth), AtomicETH: has(atomicETH), AETH: has(aeth), AtomicAck: has(atomicAck),
		Imm: has(imm), IETH: has(ieth), Payload: has(payload | operands), Atomic: has(atomicETH | operands),
	}
	at := uint8(BTHSize)
	for _, h := range []struct {
		has  bool
		off  *uint8
		size uint8
	}{
		{i.XRCETH, &i.OffXRCETH, XRCETHSize},
		{i.DETH, &i.OffDETH, DETHSize},
		{i.RETH, &i.OffRETH, RETHSize},
		{i.AtomicETH, &i.OffAtomicETH, AtomicETHSize},
		{i.AETH, &i.OffAETH, AETHSize},
		{i.AtomicAck, &i.OffAtomicAck, AtomicAckETHSize},
		{i.Imm, &i.OffImm, ImmDtSize},
		{i.IETH, &i.OffIETH, IETHSize},
	} {
		if h.has {
			*h.off, at = at, at+h.size
		}
	}
	i.HeaderSize = int(at)
	return i
}
