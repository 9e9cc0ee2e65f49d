package wqe

import "fmt"

// An Opcode is the operation of a send WQE, bits 7..0 of its first word.
type Opcode uint8

// The opcodes, by their MLX5_OPCODE names. [Info.Transports] says which of them
// the device of this project executes.
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

// Info returns the facts of o: the row of o in the table in table.go. All callers
// share the row and must not change it. Undefined opcodes have a row without a
// name. The compiler turns the call into an access to an array of 256 rows.
func (o Opcode) Info() *Info { return &infos[o] }

// String returns the vendor's name without its prefix, such as "RDMA_WRITE".
func (o Opcode) String() string {
	if i := o.Info(); i.Known() {
		return i.Name
	}
	return fmt.Sprintf("opcode 0x%02x", uint8(o))
}
