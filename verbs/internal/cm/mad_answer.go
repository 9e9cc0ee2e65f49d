//go:build linux && (amd64 || arm64)

package cm

// The messages that answer, or end something.

// put writes a REP. The vendor of ECE is in the bytes after three numbers of 24 bits. Fields that
// do not fill bytes are:
//
//	26  delay of acknowledgements:5, failover:2, flow control:1
//	27  RNR retries:3, SRQ:1, reserved:4
func (m *REP) put(mad *MAD) {
	b := mad.body()
	mad.setModifier(m.ECE.Options)
	putNumbers(b, m.From, m.To)
	put24(b[12:15], m.QPN)
	put24(b[16:19], m.EECN)
	put24(b[20:23], m.PSN)
	b[15], b[19], b[23] = byte(m.ECE.Vendor>>16), byte(m.ECE.Vendor>>8), byte(m.ECE.Vendor)
	b[24], b[25] = m.Resources, m.Depth
	b[26], b[27] = m.AckDelay<<3|m.FlowControl&1, m.RNR<<5|m.SRQ&1<<4
	be.PutUint64(b[28:36], m.GUID)
	copy(b[36:], m.Data[:])
}

func (m *REP) parse(mad *MAD) {
	b := mad.body()
	*m = REP{
		GUID: be.Uint64(b[28:36]), QPN: get24(b[12:15]), EECN: get24(b[16:19]), PSN: get24(b[20:23]),
		Resources: b[24], Depth: b[25], AckDelay: b[26] >> 3, FlowControl: b[26] & 1, RNR: b[27] >> 5,
		SRQ: b[27] >> 4 & 1, ECE: ECE{uint32(b[15])<<16 | uint32(b[19])<<8 | uint32(b[23]), mad.modifier()},
		Data: [repData]byte(b[36:]),
	}
	m.From, m.To = parseNumbers(b)
}

func (m *RTU) put(mad *MAD)   { putNumbers(mad.body(), m.From, m.To) }
func (m *RTU) parse(mad *MAD) { m.From, m.To = parseNumbers(mad.body()) }

func (m *DREP) put(mad *MAD)   { putNumbers(mad.body(), m.From, m.To) }
func (m *DREP) parse(mad *MAD) { m.From, m.To = parseNumbers(mad.body()) }

func (m *DREQ) put(mad *MAD) {
	b := mad.body()
	putNumbers(b, m.From, m.To)
	put24(b[8:11], m.QPN)
}

func (m *DREQ) parse(mad *MAD) {
	b := mad.body()
	m.From, m.To = parseNumbers(b)
	m.QPN = get24(b[8:11])
}

// put writes a REJ. The refused message has 2 bits of byte 8, and the size of the information 7 bits of byte
// 9: the upper ones.
func (m *REJ) put(mad *MAD) {
	b := mad.body()
	putNumbers(b, m.From, m.To)
	b[8], b[9] = byte(m.Refused)<<6, m.InfoSize<<1
	be.PutUint16(b[10:12], uint16(m.Reason))
	copy(b[12:84], m.Info[:])
	copy(b[84:], m.Data[:])
}

func (m *REJ) parse(mad *MAD) {
	b := mad.body()
	*m = REJ{
		Refused: refusedMessage(b[8] >> 6), InfoSize: min(b[9]>>1, rejInfo),
		Reason: rejectReason(be.Uint16(b[10:12])), Info: [rejInfo]byte(b[12:84]),
		Data: [rejData]byte(b[84:]),
	}
	m.From, m.To = parseNumbers(b)
}

// put writes an MRA: 2 bits of byte 8 and 5 bits of byte 9, the upper ones.
func (m *MRA) put(mad *MAD) {
	b := mad.body()
	putNumbers(b, m.From, m.To)
	b[8], b[9] = byte(m.Received)<<6, m.Timeout<<3
}

func (m *MRA) parse(mad *MAD) {
	b := mad.body()
	*m = MRA{Received: refusedMessage(b[8] >> 6), Timeout: b[9] >> 3}
	m.From, m.To = parseNumbers(b)
}

// put writes a SIDR_REP. The vendor of ECE has its lower byte after the number of the queue pair,
// and the rest before it.
func (m *SIDRREP) put(mad *MAD) {
	b := mad.body()
	mad.setModifier(m.ECE.Options)
	be.PutUint32(b[0:4], uint32(m.To))
	b[4] = byte(m.Status)
	be.PutUint16(b[6:8], uint16(m.ECE.Vendor>>8))
	put24(b[8:11], m.QPN)
	b[11] = byte(m.ECE.Vendor)
	be.PutUint64(b[12:20], m.Service)
	be.PutUint32(b[20:24], m.QKey)
	copy(b[96:], m.Data[:])
}

func (m *SIDRREP) parse(mad *MAD) {
	b := mad.body()
	*m = SIDRREP{
		To: linkNumber(be.Uint32(b[0:4])), Status: sidrStatus(b[4]), QPN: get24(b[8:11]),
		Service: be.Uint64(b[12:20]), QKey: be.Uint32(b[20:24]),
		ECE:  ECE{uint32(be.Uint16(b[6:8]))<<8 | uint32(b[11]), mad.modifier()},
		Data: [sidrRepData]byte(b[96:]),
	}
}
