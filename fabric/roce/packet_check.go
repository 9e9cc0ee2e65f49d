//go:build linux && (amd64 || arm64)

package roce

import "github.com/nicless/nicless/packet"

// A Reason says why a datagram was dropped.
type Reason uint8

// Reasons in the order in which they are checked, except that NotAllowed comes first.
const (
	BadLength     Reason = iota // the length is not that of a packet, or not one that the opcode can have
	UnknownOpcode               // the opcode is none of RC, UC, UD or XRC, and not that of a CNP
	BadVersion                  // the version of the transport header is not 0
	BadPKey                     // the partition is not the default one
	NotAsked                    // it is of a connection, and this engine has requested no path to the sender
	BadICRC                     // the ICRC is wrong
	NotAllowed                  // the sender is not among Config.Allowed
	TableFull                   // the sender is a stranger, and the table has no place for its path
	OverBudget                  // it is for queue pair 1, and the sender has sent too many
	OnlyKeys                    // it is of a handshake or sealed, and this end has no keys

	// On links with keys. These are checked before all others.
	NotAuthenticated // it has no tag, and the sender needs one
	NoSession        // this end has no such session or handshake, or not any more
	WrongAddress     // the session is one of another address
	Replayed         // the counter has come before, or is too old
	Forged           // the tag is wrong
	UnknownPeer      // it is message 1 of a handshake, and no line of the file of peers covers the sender
	HandshakeFlood   // it is of a handshake, and the queue is full

	Reasons // how many reasons there are

	good     Reason = 254 // it was not dropped
	ringFull Reason = 255 // it was not dropped: it is checked again when the engine's ring has room
)

var reasons = [Reasons]string{
	BadLength:        "no packet has this length",
	UnknownOpcode:    "unknown opcode",
	BadVersion:       "transport version is not 0",
	BadPKey:          "P_Key is not the default one",
	NotAsked:         "of a connection, and nothing here is connected to its address",
	BadICRC:          "wrong ICRC",
	NotAllowed:       "not an allowed peer",
	TableFull:        "too many peers",
	OverBudget:       "more management datagrams than an address may send",
	OnlyKeys:         "a handshake of a peer with keys; this engine has none",
	NotAuthenticated: "no tag, and its address needs one",
	NoSession:        "of no session",
	WrongAddress:     "of a session of another address",
	Replayed:         "it has come before, or is too old",
	Forged:           "wrong tag",
	UnknownPeer:      "a handshake of an address that no line of the file of peers covers",
	HandshakeFlood:   "too many handshakes",
}

// String returns the reason in words.
func (r Reason) String() string {
	if r < Reasons {
		return reasons[r]
	}
	return "no reason"
}

const (
	defaultPKey = 0x7fff // without the bit for full membership
	fecn        = 0x80   // in byte 4 of the BTH

	managementQPN = 1
)

// checkPacket puts a packet into the ring if it is good. The bytes are private, so they cannot change
// meanwhile. If the packet was sealed, its tag was right, and it has other bytes in place of an ICRC.
func (r *receiver) checkPacket(b []byte, sealed bool) Reason {
	if len(b) < packet.BTHSize+packet.ICRCSize || len(b)%4 != 0 || len(b) > packet.MaxPacket {
		return BadLength
	}
	bth := packet.ParseBTH((*[packet.BTHSize]byte)(b))
	info := bth.Opcode.Info()
	payloadSize := len(b) - packet.ICRCSize - int(bth.Pad) - info.HeaderSize
	switch {
	case !info.Known:
		return UnknownOpcode
	case bth.Version != 0:
		return BadVersion
	case payloadSize < 0 || payloadSize > maxMTU:
		return BadLength
	case payloadSize > 0 && !info.Payload:
		return BadLength
	case payloadSize == 0 && bth.Pad != 0:
		return BadLength
	case bth.PKey&defaultPKey != defaultPKey:
		return BadPKey
	case !sealed && bth.Opcode.Service() != packet.UD && !r.known():
		// A connected queue pair holds the path to its peer before the peer can send.
		return NotAsked
	}
	grh := 0
	if info.DETH {
		grh = grhSize
	}
	head, payload, ok := r.ring.Reserve(info.HeaderSize, grh+payloadSize)
	if !ok {
		return ringFull
	}
	if bth.DestQP == managementQPN && !r.takeBudget(r.limits.management) {
		return OverBudget
	}
	// A sender's IPv4 headers have the identification 0, or 0, 1, 2 and so on if its kernel cuts messages.
	expected := uint16(0)
	if r.d.path != nil {
		expected = r.d.path.nextID
	}
	checkedBits, id := 32, uint16(0)
	if !sealed {
		checkedBits, id = r.d.flow.Check(b, expected)
	}
	if checkedBits == 0 {
		return BadICRC
	}
	if r.d.path == nil {
		p, err := r.c.paths.use(r.key(), r.from, stranger)
		if err != nil {
			return TableFull // or the local address has just ended
		}
		r.d.path = p
		r.counts.strangers.Add(1)
	}
	copy(head, b)
	if grh != 0 {
		r.putGRH((*[grhSize]byte)(payload), len(b), id)
	}
	copy(payload[grh:], b[info.HeaderSize:])
	if r.d.tos&ecnMask == ecnCE {
		head[4] |= fecn
		r.counts.marked.Add(1)
	}
	if checkedBits < 32 && id != 0 {
		r.counts.weak.Add(1)
	}
	r.d.path.nextID = id + 1
	r.ring.Publish(r.d.path.source.number)
	r.counts.bytes.Add(uint64(len(b)))
	r.d.packets++
	r.put++
	return good
}
