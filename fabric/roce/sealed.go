//go:build linux && (amd64 || arm64)

package roce

import (
	"encoding/binary"

	"github.com/nicless/nicless/fabric/auth"
	"github.com/nicless/nicless/packet"
	"golang.org/x/sys/unix"
)

// A datagram of an authenticated link begins with 16 bytes, big-endian:
//
//	0      0xF1, where a packet of RoCE has its opcode
//	1      kind
//	2..3   0
//	4..7   number by which the receiver names the session or handshake; 0 in message 1
//	8..15  kinds 5 and 6: counter. Others: number by which the sender names the handshake, and 4 bytes 0
//
// The rest depends on the kind:
//
//	1  message 1: cookie (16 bytes, or zeros), message of Noise, zeros up to firstSize bytes
//	2  message 2 of Noise
//	3  message 3 of Noise
//	4  cookie (16 bytes)
//	5  sealed packet: BTH, extension headers, payload, pad bytes, and a tag in place of the ICRC
//	6  sealed verdict: an auth.Verdict (1 byte), and a tag. It is the answer to message 3. Later, the
//	   verdict auth.Accepted is a keepalive
//
// Opcodes from 0xC0 on are the manufacturers' (InfiniBand Architecture Specification, volume 1, section
// 9.2.1). No known device has one for packets of UDP, so a device that is not nicless drops these datagrams.
const (
	authOpcode = 0xf1
	authHead   = 16

	kindFirst   = 1
	kindSecond  = 2
	kindThird   = 3
	kindCookie  = 4
	kindPacket  = 5
	kindVerdict = 6

	verdictSize = authHead + 1 + auth.TagSize

	// sealedMore is how many bytes longer a sealed packet is than a plain packet.
	sealedMore = authHead + auth.TagSize - packet.ICRCSize
)

// putAuthHead writes the first 16 bytes of a datagram of an authenticated link. number is the receiver's
// number of the session or handshake, last is what bytes 8 to 15 have.
func putAuthHead(b []byte, kind byte, number uint32, last uint64) {
	b[0], b[1], b[2], b[3] = authOpcode, kind, 0, 0
	binary.BigEndian.PutUint32(b[4:], number)
	binary.BigEndian.PutUint64(b[8:], last)
}

// sealAuth makes the bytes of packet i for the wire, with the tag of a session in place of the ICRC. It
// returns how many elements of v it uses, as seal does: always 1.
func (s *sender) sealAuth(v []unix.Iovec, i int, with *session) int {
	o := &s.packets[i]
	counter, _ := with.senderSealer.Next() // sessionOrHold has seen that there are counters
	b := s.buffers[i*bufferEach:][:o.wire]
	putAuthHead(b, kindPacket, with.Number, counter)
	n := authHead + copy(b[authHead:], o.Head[:o.N])
	setPad(b[authHead:], padOf(len(o.Payload)))
	n += copy(b[n:], o.Payload)
	clear(b[n : len(b)-auth.TagSize])
	with.senderSealer.Seal(b, authHead, counter)
	set(&v[0], b)
	return 1
}

// sessionOrHold returns the session in which packet i, of this path, is sent; nil if the packet is sent
// without a tag. If the packet must not be sent now, ok is false. Then sessionOrHold has requested a session,
// and holds the packet until there is a session; if there is no room for the packet, it is lost.
func (s *sender) sessionOrHold(p *path, i int) (with *session, ok bool) {
	g := s.c.guard
	if g == nil {
		return nil, true
	}
	with = p.peer.send.Load()
	switch {
	case with != nil && with.Sealed() < mostSealed:
		return with, true
	case with == nil && p.peer.plain.Load(): // exchanged without keys
		return nil, true
	}
	if !p.peer.held.add(&s.packets[i], s.now) {
		s.counts.noSession.Add(1)
	}
	g.requestSession(p.peer)
	return nil, false
}

// checkDatagram checks a datagram, and puts its packet into the ring if the packet is good. A datagram of a
// link with keys is opened first. No other process has the bytes of b, so they do not change meanwhile.
func (r *receiver) checkDatagram(b []byte) Reason {
	g := r.c.guard
	switch {
	case b[0] >= vendorOpcodes:
		return r.vendor(b)
	case g != nil && !g.plainFrom(&r.d):
		return NotAuthenticated
	}
	return r.checkPacket(b, false)
}

// vendor handles a datagram with an opcode of manufacturers: 0xc0 to 0xff. The datagram may come from any
// address, and the screen has checked only its length. If the datagram is sealed, its tag shows whether it is
// from the peer. The guard bounds what handshakes cost.
func (r *receiver) vendor(b []byte) Reason {
	g := r.c.guard
	switch {
	case len(b) < authHead:
		return BadLength
	case g == nil && b[0] == authOpcode:
		return OnlyKeys
	case b[0] != authOpcode:
		return UnknownOpcode
	case b[1] == kindPacket || b[1] == kindVerdict:
		return r.openSealed(g, b)
	}
	return g.letter(r.from, &r.d, b)
}

// openSealed opens a sealed packet or verdict. The content of a packet is checked like a plain packet. If the
// ring is full, openSealed is called again later with the same bytes, which are open already. r.opened says
// so: if they were opened twice, the second time would be refused as a replay.
func (r *receiver) openSealed(g *guard, b []byte) Reason {
	if !r.opened {
		if len(b) < verdictSize {
			return BadLength
		}
		s := g.find(binary.BigEndian.Uint32(b[4:]))
		switch {
		case s == nil:
			return NoSession
		case s.remote.from != r.from || s.remote.addr != r.d.remote:
			return WrongAddress
		}
		switch s.Opener().Open(b, authHead, binary.BigEndian.Uint64(b[8:])) {
		case auth.Replayed:
			return Replayed
		case auth.Forged:
			return Forged
		}
		s.opened(g, b)
		if b[1] == kindVerdict {
			return good
		}
		r.opened = true
	}
	if len(b) < authHead+packet.BTHSize+auth.TagSize {
		r.opened = false
		return BadLength
	}
	end := len(b) - auth.TagSize + packet.ICRCSize // the ICRC's place has bytes of the tag
	why := r.checkPacket(b[authHead:end], true)
	r.opened = why == ringFull
	return why
}

// opened notes that a good datagram has come in the session.
func (s *session) opened(g *guard, b []byte) {
	s.got.Add(1)
	if b[1] == kindPacket {
		s.remote.got.Add(1)
	} else if v := auth.Verdict(b[authHead]); v != auth.Accepted {
		s.verdict.Store(uint32(v))
	}
	if !s.gotAny.Load() {
		s.gotAny.Store(true)
		g.signal()
	}
}
