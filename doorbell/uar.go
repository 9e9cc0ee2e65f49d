package doorbell

// Layout of a UAR page. All offsets are from the start of the page.
const (
	UARPageSize = 4096
	CQArmOffset = 0x20  // ArmRegister of a CQ
	EQArmOffset = 0x40  // ArmRegister of an event queue
	BFOffset    = 0x800 // the first doorbell and BlueFlame register
	BFRegSize   = 512   // size of a register, both halves (bf_reg_size)
	BFHalf      = 256   // size of one half, and of the longest BlueFlame copy
	BFRegs      = (UARPageSize - BFOffset) / BFRegSize
)

// Register says to which doorbell register the byte at offset off of a UAR page belongs.
// reg is the number of the register, 0..BFRegs-1, and half is the number of its half, 0
// or 1. ok is false if off is below BFOffset or past the page.
func Register(off uint32) (reg, half int, ok bool) {
	if off < BFOffset || off >= UARPageSize {
		return 0, 0, false
	}
	return int(off-BFOffset) / BFRegSize, int(off / BFHalf & 1), true
}

// IsRegister reports whether a doorbell may be written at offset off. It may be written
// only at the start of each half of a register.
func IsRegister(off uint32) bool {
	return off >= BFOffset && off < UARPageSize && off%BFHalf == 0
}

// OtherHalf returns the offset of the other half of the register at off. CPU libraries
// alternate between the halves, so that two BlueFlame copies never merge.
func OtherHalf(off uint32) uint32 { return off ^ BFHalf }
