//go:build linux && (amd64 || arm64)

package cm

// The messages that ask for something. Offsets are those of the specification: they begin after
// the header.

// Transports in a REQ. XRC is an extension, which has a field of its own.
const (
	transportRC       = 0
	transportUC       = 1
	transportExtended = 3
	extendedXRC       = 1
)

// put writes a REQ. Its fields that do not fill bytes are:
//
//	43  CM response timeout of the receiver:5, transport:2, flow control:1
//	47  CM response timeout of the sender:5, retries:3
//	50  MTU:4, RDC exists:1, RNR retries:3
//	51  CM retries:4, SRQ:1, extended transport:3
//	88  flow label:20, reserved:6, rate:6
//	94  SL:4, subnet local:1, reserved:3
//	95  timeout of acknowledgements:5, reserved:3
func (m *REQ) put(mad *MAD) {
	b := mad.body()
	mad.setModifier(m.ECE.Options)
	be.PutUint32(b[0:4], uint32(m.From))
	put24(b[5:8], m.ECE.Vendor)
	be.PutUint64(b[8:16], m.Service)
	be.PutUint64(b[16:24], m.GUID)
	put24(b[32:35], m.QPN)
	b[35], b[39] = m.Resources, m.Depth
	transport, extended := transportRC, 0
	switch m.QPType {
	case qptUC:
		transport = transportUC
	case qptXRCRecv:
		transport, extended = transportExtended, extendedXRC
	}
	b[43] = m.CM.Remote<<3 | byte(transport)<<1 | m.FlowControl&1
	put24(b[44:47], m.PSN)
	b[47] = m.CM.Local<<3 | m.Retry&7
	be.PutUint16(b[48:50], m.PKey)
	b[50] = m.MTU<<4 | m.RNR&7
	b[51] = m.CM.Retries<<4 | m.SRQ&1<<3 | byte(extended)
	m.Path.put(b)
	b[95] = m.Timeout << 3
	copy(b[140:], m.Data[:])
}

func (m *REQ) parse(mad *MAD) {
	b := mad.body()
	*m = REQ{
		From: linkNumber(be.Uint32(b[0:4])), Service: be.Uint64(b[8:16]), GUID: be.Uint64(b[16:24]),
		QPN: get24(b[32:35]), PSN: get24(b[44:47]), Resources: b[35], Depth: b[39],
		FlowControl: b[43] & 1, Retry: b[47] & 7, RNR: b[50] & 7, SRQ: b[51] >> 3 & 1,
		MTU: b[50] >> 4, Timeout: b[95] >> 3, PKey: be.Uint16(b[48:50]),
		ECE: ECE{get24(b[5:8]), mad.modifier()}, CM: CMTimeouts{b[43] >> 3, b[47] >> 3, b[51] >> 4},
		Path: parseRequestPath(b), Data: [reqData]byte(b[140:]),
	}
	transport, extended := b[43]>>1&3, b[51]&7
	switch {
	case transport == transportRC:
		m.QPType = qptRC
	case transport == transportUC:
		m.QPType = qptUC
	case transport == transportExtended && extended == extendedXRC:
		m.QPType = qptXRCRecv
	}
}

func (p *RequestPath) put(b *[MADSize - madHeader]byte) {
	be.PutUint16(b[52:54], p.LocalLID)
	be.PutUint16(b[54:56], p.RemoteLID)
	copy(b[56:72], p.LocalGID[:])
	copy(b[72:88], p.RemoteGID[:])
	be.PutUint32(b[88:92], p.FlowLabel<<12|uint32(p.Rate&0x3f))
	b[92], b[93], b[94] = p.TrafficClass, p.HopLimit, p.SL<<4
	if p.SubnetLocal {
		b[94] |= 1 << 3
	}
}

func parseRequestPath(b *[MADSize - madHeader]byte) RequestPath {
	return RequestPath{
		LocalLID: be.Uint16(b[52:54]), RemoteLID: be.Uint16(b[54:56]), LocalGID: GID(b[56:72]),
		RemoteGID: GID(b[72:88]), FlowLabel: be.Uint32(b[88:92]) >> 12, Rate: b[91] & 0x3f,
		TrafficClass: b[92], HopLimit: b[93], SL: b[94] >> 4, SubnetLocal: b[94]>>3&1 != 0,
	}
}

func (m *SIDRREQ) put(mad *MAD) {
	b := mad.body()
	be.PutUint32(b[0:4], uint32(m.From))
	be.PutUint16(b[4:6], m.PKey)
	be.PutUint64(b[8:16], m.Service)
	copy(b[16:], m.Data[:])
}

func (m *SIDRREQ) parse(mad *MAD) {
	b := mad.body()
	*m = SIDRREQ{From: linkNumber(be.Uint32(b[0:4])), PKey: be.Uint16(b[4:6]), Service: be.Uint64(b[8:16]),
		Data: [sidrReqData]byte(b[16:])}
}
