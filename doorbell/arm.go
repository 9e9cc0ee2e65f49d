package doorbell

// Arm asks for one completion event: the word at ArmWord of a CQ's record, and
// the high word of the register at CQArmOffset. A device fires when an entry
// of index CI or above exists.
type Arm struct {
	SN        uint8  // sequence number 0..3; one more after every event
	Solicited bool   // fire for solicited entries and errors only
	CI        uint32 // consumer index, 24 bits
	Rsvd      uint32 // bits 31..30 and 27..25, in place
}

const (
	armSNShift   = 28
	armSolicited = 1 << 24 // MLX5_CQ_DB_REQ_NOT_SOL
	armRsvd      = ^uint32(3<<armSNShift | armSolicited | CIMask)
)

// ParseArm reads an arm word.
func ParseArm(word uint32) Arm {
	return Arm{
		SN:        uint8(word >> armSNShift & 3),
		Solicited: word&armSolicited != 0,
		CI:        word & CIMask,
		Rsvd:      word & armRsvd,
	}
}

// Word packs a. SN is cut to 2 bits and CI to 24: the client may pass its
// running counts.
func (a Arm) Word() uint32 {
	w := uint32(a.SN&3)<<armSNShift | a.CI&CIMask | a.Rsvd&armRsvd
	if a.Solicited {
		w |= armSolicited
	}
	return w
}

// ArmRegister is the value written at CQArmOffset of a UAR page, as a number
// whose big-endian bytes are the register's: arm word high, CQ number low.
type ArmRegister uint64

// MakeArmRegister packs the value; cqn is cut to 24 bits.
func MakeArmRegister(a Arm, cqn uint32) ArmRegister {
	return ArmRegister(a.Word())<<32 | ArmRegister(cqn&CIMask)
}

// Arm returns the request.
func (r ArmRegister) Arm() Arm { return ParseArm(uint32(r >> 32)) }

// CQN returns the 24-bit number of the CQ to arm.
func (r ArmRegister) CQN() uint32 { return uint32(r) & CIMask }
