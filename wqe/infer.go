package wqe

// infer returns the most likely address of the WQE. Each layout that fits gets
// penalty points for values that clients rarely write. The lowest sum wins; if two
// sums are equal, the simpler address wins.
//
// Some bytes distinguish an address from a pointer or a remote address: in an address
// vector the Ext bit followed by reserved zeros, in an XRC segment twelve zeros, in an
// Ethernet segment zeros where a pointer would have a length (a pointer with byte
// count 0 means 2^31 bytes). This is never certain, so only dumps use infer.
func infer(c Ctrl, b []byte) Address {
	info := c.Opcode.Info()
	if !info.Address {
		return NoAddress
	}
	candidates := [...]Address{NoAddress, AddressXRC, AddressEth, AddressDC, AddressUDEth}
	best, least := NoAddress, impossible
	for _, a := range candidates {
		eth := a == AddressEth || a == AddressUDEth
		if (info.Eth && !eth) || (info.Raddr && eth) {
			continue
		}
		v := View{Ctrl: c, Address: a, b: b}
		if v.layOut() != nil {
			continue
		}
		if s := v.penalty(); s < least {
			best, least = a, s
		}
	}
	if best != AddressDC {
		return best
	}
	// The key may be a qkey of UD (32 bits) or an access key of DC (64 bits). UD has
	// only sends, and no streams.
	av := ParseCompactAV((*[CompactAVSize]byte)(b[CtrlSize:]))
	if uint32(av.Key) == 0 && !info.Raddr && c.Stream == 0 {
		return AddressUD
	}
	return AddressDC
}

// impossible is the penalty of a layout that no client writes.
const impossible = 1 << 20

// penalty adds up the penalty points of the segments of the view.
func (v *View) penalty() (n int) {
	data := 0
	size := uint32(v.Ctrl.OperandSize())
	for it := v.Segments(); ; {
		s, ok := it.Next()
		if !ok {
			break
		}
		switch s.Kind {
		case KindAV:
			n += penaltyAV(ParseAV((*[AVSize]byte)(s.Bytes)))
		case KindCompactAV:
			n += penaltyCompactAV(ParseCompactAV((*[CompactAVSize]byte)(s.Bytes)))
		case KindXRC:
			n += penaltyXRC(ParseXRC((*[XRCSize]byte)(s.Bytes)))
		case KindEth:
			n += penaltyEth(ParseEth((*[EthSize]byte)(s.Bytes)), v.Ctrl.Opcode)
		case KindRaddr:
			n += penaltyRaddr(ParseRaddr((*[RaddrSize]byte)(s.Bytes)))
		case KindData:
			d := ParseData((*[DataSize]byte)(s.Bytes))
			n += penaltyData(d)
			data++
			if size != 0 && d.ByteCount != size {
				n += 2
			}
		case KindInline:
			if d := ParseData((*[DataSize]byte)(s.Bytes)); d.ByteCount&^(InlineFlag|InlineMask) != 0 {
				n += 50 // more than the sum for all pointers that the inline segment may hide
			}
		}
	}
	if size != 0 && data != 1 {
		n += 2 // an atomic has exactly one data segment
	}
	return n
}

func penaltyAV(a AV) int {
	switch {
	case a.Rsvd != 0 || a.Rsvd16 != 0:
		return impossible
	case a.GRH&0xb0000000 != 0: // reserved bits
		return 1
	}
	return -1 // bytes like these are hardly ever anything else
}

func penaltyCompactAV(a CompactAV) int {
	if a.Rsvd != 0 {
		return impossible
	}
	return 4 // few bits distinguish it from a pointer
}

func penaltyXRC(x XRC) int {
	switch {
	case x.Rsvd != [12]byte{} || x.SRQN>>24 != 0:
		return impossible
	case x.SRQN == 0:
		return 2
	}
	return 1
}

func penaltyEth(e Eth, op Opcode) int {
	tso := op == OpTSO
	switch {
	case e.CSFlags&0x0f != 0, e.SWP != 0 && e.SWPFlags == 0,
		e.SWPFlags != 0 && !tso, e.MSS != 0 && !tso, e.Meta != 0 && !tso:
		return impossible
	case e.HdrSize == 0 && e.Hdr != [2]byte{}:
		return impossible
	}
	return 1
}

func penaltyRaddr(r Raddr) int {
	n := penaltyAddr(r.Addr)
	if r.Rsvd != 0 {
		n += 2
	}
	if r.RKey == 0 && r.Addr != 0 {
		n += 3
	}
	return n
}

func penaltyData(d Data) int {
	n := penaltyAddr(d.Addr)
	if d.ByteCount == 0 {
		n += 2
	} else if d.ByteCount > 1<<30 {
		n++
	}
	if d.LKey == 0 {
		n++
		if d.Addr == 0 {
			n += 3
		}
	}
	return n
}

// penaltyAddr is the penalty of an address. It is lowest for virtual addresses of
// programs, which have 48 or 57 bits and are sign-extended.
func penaltyAddr(addr uint64) int {
	switch addr >> 48 {
	case 0, 0xffff:
		return 0
	}
	switch addr >> 56 {
	case 0, 0xff:
		return 1
	}
	return 2
}
