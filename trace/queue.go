package trace

import "fmt"

// A Transport is the type of a queue pair, by the numbers of enum ibv_qp_type and of mlx5's DC.
type Transport uint8

const (
	RC     Transport = 2
	UC     Transport = 3
	UD     Transport = 4
	Raw    Transport = 8
	XRCIni Transport = 9
	XRCTgt Transport = 10
	DCI    Transport = 0xf0
	DCT    Transport = 0xf1
)

var transportNames = map[Transport]string{
	RC: "RC", UC: "UC", UD: "UD", Raw: "RAW", XRCIni: "XRC-INI", XRCTgt: "XRC-TGT", DCI: "DCI", DCT: "DCT",
}

// String returns the name of the transport.
func (t Transport) String() string {
	if s := transportNames[t]; s != "" {
		return s
	}
	return fmt.Sprintf("transport %d", uint8(t))
}

// A State is the state of a queue pair, by the numbers of enum ibv_qp_state.
type State uint8

const (
	RST State = iota
	INIT
	RTR
	RTS
	SQD
	SQE
	ERR
)

var stateNames = [...]string{"RST", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"}

// String returns the name of the state, as the InfiniBand specification has it.
func (s State) String() string {
	if int(s) < len(stateNames) {
		return stateNames[s]
	}
	return fmt.Sprintf("state %d", uint8(s))
}

// A QueueInfo says what a queue pair is: the data of an event of kind KindQueue. Numbers that it does not
// have are 0.
type QueueInfo struct {
	SendCQ, RecvCQ uint32
	Peer           uint32 // queue pair at the other end; 0: not connected yet, or not of one peer
	SRQ            uint32
	SendPSN        uint32 // first packet sequence number that it sends
	RecvPSN        uint32 // first packet sequence number that it expects
	SendBlocks     uint32 // size of the send queue, in blocks of 64 bytes
	RecvEntries    uint32 // size of the receive queue
	Port           uint32 // number of the port to a peer on another device; 0: the peer is on this device
	MTU            uint32 // path MTU in bytes
	GID            [16]byte
	PeerGID        [16]byte
}

// QueueInfoSize is the bytes of a QueueInfo.
const QueueInfoSize = 10*4 + 2*16

// Append appends the bytes of q to b: its numbers, four bytes each in the order of its fields, then its GIDs.
func (q *QueueInfo) Append(b []byte) []byte {
	for _, v := range []uint32{q.SendCQ, q.RecvCQ, q.Peer, q.SRQ, q.SendPSN, q.RecvPSN, q.SendBlocks,
		q.RecvEntries, q.Port, q.MTU} {
		b = le.AppendUint32(b, v)
	}
	return append(append(b, q.GID[:]...), q.PeerGID[:]...)
}

// ParseQueueInfo returns the QueueInfo in b, which may have further bytes.
func ParseQueueInfo(b []byte) (q QueueInfo, err error) {
	if len(b) < QueueInfoSize {
		return q, fmt.Errorf("trace: %d bytes of a queue pair; it has %d", len(b), QueueInfoSize)
	}
	for i, p := range []*uint32{&q.SendCQ, &q.RecvCQ, &q.Peer, &q.SRQ, &q.SendPSN, &q.RecvPSN, &q.SendBlocks,
		&q.RecvEntries, &q.Port, &q.MTU} {
		*p = le.Uint32(b[4*i:])
	}
	copy(q.GID[:], b[40:])
	copy(q.PeerGID[:], b[56:])
	return q, nil
}
