package doorbell

// Layout of a UAR page. All offsets are from the start of the page.
const (
	UARPageSize = 4096
	CQArmOffset = 0x20  // ArmRegister
	EQArmOffset = 0x40  // the same for an event queue
	BFOffset    = 0x800 // the first doorbell and BlueFlame register
	BFRegSize   = 512   // bf_reg_size: the two halves of one register
	BFHalf      = 256   // one half, and the longest BlueFlame copy
	BFRegs      = (UARPageSize - BFOffset) / BFRegSize
)

// Register tells which doorbell register the byte at offset off of a UAR page
// belongs to, 0..BFRegs-1, and which half of it, 0 or 1. Any offset within a
// half belongs to it; ok is false below BFOffset and past the page.
func Register(off uint32) (reg, half int, ok bool) {
	if off < BFOffset || off >= UARPageSize {
		return 0, 0, false
	}
	return int(off-BFOffset) / BFRegSize, int(off / BFHalf & 1), true
}

// IsRegister reports whether off is where a doorbell may be written: the start
// of either half of a register.
func IsRegister(off uint32) bool {
	return off >= BFOffset && off < UARPageSize && off%BFHalf == 0
}

// OtherHalf returns the offset of the same register's other half. CPU libraries
// alternate between the halves, so that two BlueFlame copies never merge.
func OtherHalf(off uint32) uint32 { return off ^ BFHalf }
