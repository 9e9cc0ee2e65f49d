package wqe

import "fmt"

// An Opcode is the operation of a send WQE, bits 7..0 of its first word.
type Opcode uint8

// The opcodes, by their MLX5_OPCODE names. A device need not execute them all.
const (
	OpNop            Opcode = 0x00
	OpSendInval      Opcode = 0x01
	OpRDMAWrite      Opcode = 0x08
	OpRDMAWriteImm   Opcode = 0x09
	OpSend           Opcode = 0x0a
	OpSendImm        Opcode = 0x0b
	OpTSO            Opcode = 0x0e
	OpWait           Opcode = 0x0f
	OpRDMARead       Opcode = 0x10
	OpAtomicCS       Opcode = 0x11
	OpAtomicFA       Opcode = 0x12
	OpAtomicMaskedCS Opcode = 0x14
	OpAtomicMaskedFA Opcode = 0x15
	OpSendEn         Opcode = 0x17
	OpBindMW         Opcode = 0x18
	OpFMR            Opcode = 0x19
	OpLocalInval     Opcode = 0x1b
	OpConfigCmd      Opcode = 0x1f
	OpSetPSV         Opcode = 0x20
	OpGetPSV         Opcode = 0x21
	OpCheckPSV       Opcode = 0x22
	OpDump           Opcode = 0x23
	OpUMR            Opcode = 0x25
	OpRGetPSV        Opcode = 0x26
	OpRCheckPSV      Opcode = 0x27
	OpTagMatching    Opcode = 0x28
	OpEnhancedMPSW   Opcode = 0x29
	OpFlowTblAccess  Opcode = 0x2c
	OpAccessASO      Opcode = 0x2d
	OpMMO            Opcode = 0x2f
)

// An ImmUse says what the last word of the control segment is for.
type ImmUse uint8

// Uses of the control segment's last word.
const (
	ImmNone      ImmUse = iota // ignored; clients leave garbage there
	ImmData                    // the immediate, four bytes copied as they are
	ImmInvalRKey               // the rkey that the receiver invalidates
	ImmMkey                    // the mkey to change
)

// Info is what is always true of an opcode. Its segments come in the order of
// the fields here.
type Info struct {
	Name    string
	Known   bool   // a defined opcode
	Address bool   // an address comes first on the transports that need one
	Eth     bool   // an Ethernet segment, whatever the transport
	Raddr   bool   // a remote address segment
	Operand Kind   // then this segment, 0 for none; the opmod may choose another form of it
	Data    bool   // then data segments, as many as DS leaves room for
	Inline  bool   // which may be inline
	Imm     ImmUse // the control segment's last word
}

// Info returns the row of o, shared and not to be changed. Undefined opcodes
// have one too, with Known false.
func (o Opcode) Info() *Info { return &infos[o] }

// String returns the vendor's name without its prefix, such as "RDMA_WRITE".
func (o Opcode) String() string {
	if i := o.Info(); i.Known {
		return i.Name
	}
	return fmt.Sprintf("opcode 0x%02x", uint8(o))
}

// infos is the table of opcodes. Known rows that name no segment are defined
// by the vendor without a public layout: their units are KindRaw.
var infos = [256]Info{
	OpNop:            {Name: "NOP", Known: true, Operand: KindUnused},
	OpSendInval:      {Name: "SEND_INVAL", Known: true, Address: true, Data: true, Inline: true, Imm: ImmInvalRKey},
	OpRDMAWrite:      {Name: "RDMA_WRITE", Known: true, Address: true, Raddr: true, Data: true, Inline: true},
	OpRDMAWriteImm:   {Name: "RDMA_WRITE_IMM", Known: true, Address: true, Raddr: true, Data: true, Inline: true, Imm: ImmData},
	OpSend:           {Name: "SEND", Known: true, Address: true, Data: true, Inline: true},
	OpSendImm:        {Name: "SEND_IMM", Known: true, Address: true, Data: true, Inline: true, Imm: ImmData},
	OpTSO:            {Name: "TSO", Known: true, Address: true, Eth: true, Data: true, Inline: true},
	OpWait:           {Name: "WAIT", Known: true, Operand: KindWait},
	OpRDMARead:       {Name: "RDMA_READ", Known: true, Address: true, Raddr: true, Data: true},
	OpAtomicCS:       {Name: "ATOMIC_CS", Known: true, Address: true, Raddr: true, Operand: KindAtomic, Data: true},
	OpAtomicFA:       {Name: "ATOMIC_FA", Known: true, Address: true, Raddr: true, Operand: KindAtomic, Data: true},
	OpAtomicMaskedCS: {Name: "ATOMIC_MASKED_CS", Known: true, Address: true, Raddr: true, Operand: KindMaskedCS8, Data: true},
	OpAtomicMaskedFA: {Name: "ATOMIC_MASKED_FA", Known: true, Address: true, Raddr: true, Operand: KindMaskedFA8, Data: true},
	OpSendEn:         {Name: "SEND_EN", Known: true, Operand: KindWait},
	OpBindMW:         {Name: "BIND_MW", Known: true, Operand: KindUMRCtrl, Imm: ImmMkey},
	OpFMR:            {Name: "FMR", Known: true},
	OpLocalInval:     {Name: "LOCAL_INVAL", Known: true, Operand: KindUMRCtrl, Imm: ImmMkey},
	OpConfigCmd:      {Name: "CONFIG_CMD", Known: true},
	OpSetPSV:         {Name: "SET_PSV", Known: true, Operand: KindSetPSV},
	OpGetPSV:         {Name: "GET_PSV", Known: true},
	OpCheckPSV:       {Name: "CHECK_PSV", Known: true},
	OpDump:           {Name: "DUMP", Known: true, Data: true},
	OpUMR:            {Name: "UMR", Known: true, Operand: KindUMRCtrl, Imm: ImmMkey},
	OpRGetPSV:        {Name: "RGET_PSV", Known: true},
	OpRCheckPSV:      {Name: "RCHECK_PSV", Known: true},
	OpTagMatching:    {Name: "TAG_MATCHING", Known: true, Operand: KindTagMatching},
	OpEnhancedMPSW:   {Name: "ENHANCED_MPSW", Known: true, Eth: true, Data: true, Inline: true},
	OpFlowTblAccess:  {Name: "FLOW_TBL_ACCESS", Known: true},
	OpAccessASO:      {Name: "ACCESS_ASO", Known: true},
	OpMMO:            {Name: "MMO", Known: true, Operand: KindMMOMeta, Data: true},
}
