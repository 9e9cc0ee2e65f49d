package doorbell

// Arm is a request for one completion event. A client writes it to the word ArmWord of
// a CQ's record and to the high word of the register at CQArmOffset. A device raises
// the event when an entry exists whose index is CI or greater.
type Arm struct {
	SN        uint8  // sequence number 0..3; the client adds one after every event
	Solicited bool   // raise the event for solicited entries and errors only
	CI        uint32 // consumer index, 24 bits
	Rsvd      uint32 // bits 31..30 and 27..25, at their place in the word
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

// Word packs the request into an arm word. It cuts SN to 2 bits and CI to 24 bits, so
// the client may pass counts that do not wrap.
func (a Arm) Word() uint32 {
	w := uint32(a.SN&3)<<armSNShift | a.CI&CIMask | a.Rsvd&armRsvd
	if a.Solicited {
		w |= armSolicited
	}
	return w
}

// ArmRegister is the value of the register at CQArmOffset of a UAR page, as a big-endian
// number. The arm word is its high half, the CQ number its low half.
type ArmRegister uint64

// MakeArmRegister packs the value. It cuts cqn to 24 bits.
func MakeArmRegister(a Arm, cqn uint32) ArmRegister {
	return ArmRegister(a.Word())<<32 | ArmRegister(cqn&CIMask)
}

// Arm returns the arm request in the high half.
func (r ArmRegister) Arm() Arm { return ParseArm(uint32(r >> 32)) }

// CQN returns the 24-bit number of the CQ to arm.
func (r ArmRegister) CQN() uint32 { return uint32(r) & CIMask }
