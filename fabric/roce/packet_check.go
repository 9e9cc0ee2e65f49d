//go:build linux && (amd64 || arm64)

package roce

import "github.com/nicless/nicless/packet"

// A Reason says why a datagram was dropped.
type Reason uint8

// Reasons in the order in which they are checked, except that NotAllowed comes first.
const (
	BadLength     Reason = iota // too short, too long, no multiple of 4, or not that of its opcode's headers
	UnknownOpcode               // no packet that RC, UC, UD or XRC has, and no CNP
	BadVersion                  // transport header version other than 0
	BadPKey                     // partition other than the default one
	NotAsked                    // a connection's, and this engine has requested no path to its address
	BadICRC
	NotAllowed // its address is not among Config.Allowed
	TableFull  // a stranger, and all paths are held
	OverBudget // for queue pair 1, and more than an address may send
	OnlyKeys   // a handshake, or a sealed packet; and this end has no keys

	// On links with keys. These are checked before all others.
	NotAuthenticated // a packet without a tag, although its address needs one
	NoSession        // of a session or handshake that this end does not have (any more)
	WrongAddress     // of a session of another address
	Replayed         // its counter has come before, or is too old
	Forged           // its tag is wrong
	UnknownPeer      // a handshake of an address that no line covers
	HandshakeFlood   // a handshake for which there is no room

	Reasons // how many reasons there are

	good     Reason = 254 // in the ring
	ringFull Reason = 255 // not checked: no room
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
// meanwhile. If it was sealed, its tag was right, and what stands in the place of the ICRC is not one.
func (r *receiver) checkPacket(b []byte, sealed bool) Reason {
	if len(b) < packet.BTHSize+packet.ICRCSize || len(b)%4 != 0 || len(b) > packet.MaxPacket {
		return BadLength
	}
	bth := packet.ParseBTH((*[packet.BTHSize]byte)(b))
	info := bth.Opcode.Info()
	n := len(b) - packet.ICRCSize - int(bth.Pad) - info.HeaderSize
	switch {
	case !info.Known:
		return UnknownOpcode
	case bth.Version != 0:
		return BadVersion
	case n < 0 || n > maxMTU || (n > 0 && !info.Payload) || (n == 0 && bth.Pad != 0):
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
	head, payload, ok := r.ring.Reserve(info.HeaderSize, grh+n)
	if !ok {
		return ringFull
	}
	if bth.DestQP == managementQPN && !r.takeBudget(r.limits.management) {
		return OverBudget
	}
	// A device sends identification 0, or 0, 1, 2 ... if its kernel has cut a message.
	first := uint16(0)
	if r.d.path != nil {
		first = r.d.path.nextID
	}
	bits, id := 32, uint16(0)
	if !sealed {
		bits, id = r.d.flow.Check(b, first)
	}
	if bits == 0 {
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
	if bits < 32 && id != 0 {
		r.counts.weak.Add(1)
	}
	r.d.path.nextID = id + 1
	r.ring.Publish(r.d.path.source.number)
	r.counts.bytes.Add(uint64(len(b)))
	r.d.packets++
	r.put++
	return good
}
