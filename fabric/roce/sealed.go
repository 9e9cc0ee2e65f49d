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
//	8..15  sealed: counter. Others: number by which the sender names the handshake, and 4 bytes 0
//
// The rest depends on the kind:
//
//	1  message 1: cookie (16 bytes, or zeros), message of Noise, zeros up to firstSize bytes
//	2  message 2 of Noise
//	3  message 3 of Noise
//	4  cookie (16 bytes)
//	5  sealed packet: BTH, extension headers, payload, pad bytes, and a tag in place of the ICRC
//	6  sealed word: a verdict, and a tag. It answers message 3, and shows that this end lives
//
// Opcodes from 0xC0 on are the manufacturers' (InfiniBand Architecture Specification, volume 1, section
// 9.2.1). No known device has one for packets of UDP, so a device that is not nicless drops these datagrams.
const (
	authOpcode = 0xf1
	authHead   = 16

	kindFirst  = 1
	kindSecond = 2
	kindThird  = 3
	kindCookie = 4
	kindPacket = 5
	kindWord   = 6

	wordSize = authHead + 1 + auth.TagSize

	// sealedMore is by how many bytes a sealed packet is longer than a plain packet.
	sealedMore = authHead + auth.TagSize - packet.ICRCSize
)

// putAuthHead writes the first bytes of a datagram of an authenticated link.
func putAuthHead(b []byte, kind byte, number uint32, last uint64) {
	b[0], b[1], b[2], b[3] = authOpcode, kind, 0, 0
	binary.BigEndian.PutUint32(b[4:], number)
	binary.BigEndian.PutUint64(b[8:], last)
}

// sealAuth makes the bytes of packet i for the wire, as seal does, but with the tag of a session in place of
// the ICRC.
func (s *sender) sealAuth(v []unix.Iovec, i int, with *session) int {
	o := &s.packets[i]
	counter, _ := with.seal.Next() // sessionOrHold has seen that the batch has counters
	b := s.buffers[i*bufferEach:][:o.wire]
	putAuthHead(b, kindPacket, with.Number, counter)
	n := authHead + copy(b[authHead:], o.Head[:o.N])
	setPad(b[authHead:], padOf(len(o.Payload)))
	n += copy(b[n:], o.Payload)
	clear(b[n : len(b)-auth.TagSize])
	with.seal.Seal(b, authHead, counter)
	set(&v[0], b)
	return 1
}

// sessionOrHold returns the session in which packet i, of this path, is sent; nil if the packet is sent
// without a tag. If the packet must not be sent now, ok is false: the packet is held until there is a
// session, or lost.
func (s *sender) sessionOrHold(p *path, i int) (with *session, ok bool) {
	g := s.c.guard
	if g == nil {
		return nil, true
	}
	with = p.peer.send.Load()
	switch {
	case with != nil && with.Sealed() < auth.MostSealed-2*sendBatch:
		return with, true
	case with == nil && p.peer.plain.Load():
		return nil, true
	}
	if !p.peer.held.add(&s.packets[i], s.now) {
		s.counts.noSession.Add(1)
	}
	g.requestSession(p.peer)
	return nil, false
}

// checkDatagram checks a datagram, and puts its packet into the ring if it is good. A datagram of a link
// with keys is opened first. The bytes are private, so they cannot change meanwhile.
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

// vendor handles a datagram with an opcode of manufacturers: 0xc0 to 0xff. It may come from any address, and
// the screen has checked only its length. The tag of a sealed packet shows its sender. The guard bounds what
// handshakes cost.
func (r *receiver) vendor(b []byte) Reason {
	g := r.c.guard
	switch {
	case len(b) < authHead:
		return BadLength
	case g == nil && b[0] == authOpcode:
		return OnlyKeys
	case b[0] != authOpcode:
		return UnknownOpcode
	case b[1] == kindPacket || b[1] == kindWord:
		return r.openSealed(g, b)
	}
	return g.letter(r.from, &r.d, b)
}

// openSealed opens a sealed packet or word. The content of a packet is checked like a plain packet. If the
// ring is full, openSealed is called again with the same bytes, which are open already: they must not be
// opened twice, because the counter would be refused.
func (r *receiver) openSealed(g *guard, b []byte) Reason {
	if !r.opened {
		if len(b) < wordSize {
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
		if b[1] == kindWord {
			return good
		}
		r.opened = true
	}
	if len(b) < authHead+packet.BTHSize+auth.TagSize {
		r.opened = false
		return BadLength
	}
	why := r.checkPacket(b[authHead:len(b)-auth.TagSize+packet.ICRCSize], true)
	r.opened = why == ringFull
	return why
}

// opened notes that a good datagram has come in the session.
func (s *session) opened(g *guard, b []byte) {
	s.got.Add(1)
	if b[1] == kindPacket {
		s.remote.got.Add(1)
	} else if v := b[authHead]; v != 0 {
		s.verdict.Store(uint32(v))
	}
	if !s.used.Load() {
		s.used.Store(true)
		g.signal()
	}
}
