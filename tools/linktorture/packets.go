//go:build linux && (amd64 || arm64)

package linktorture

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/nicless/nicless/packet"
)

// strangers is an address of the network on which no engine is.
var strangers = netip.MustParseAddr(addresses[2])

// from returns a UDP socket with this address, and any port: what a user of the host can have whose
// engine has the address. It sets DF, so the identification of its packets is 0.
func (h *hostile) from(a netip.Addr) (int, error) {
	if fd, ok := h.senders[a]; ok {
		return fd, nil
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return -1, err
	}
	if err := errors.Join(unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_DO),
		unix.Bind(fd, &unix.SockaddrInet4{Addr: a.As4()})); err != nil {
		return -1, fmt.Errorf("a socket at %v: %w", a, err)
	}
	h.senders[a] = fd
	return fd, nil
}

// send sends a packet in the name of an address. Its ICRC is right unless wrong is set.
func (h *hostile) send(from, to netip.Addr, b []byte, wrong bool) error {
	fd, err := h.from(from)
	if err != nil {
		return err
	}
	local, err := unix.Getsockname(fd)
	if err != nil {
		return err
	}
	b = append(b, make([]byte, packet.ICRCSize)...)
	packet.MakeFlow(netip.AddrPortFrom(from, uint16(local.(*unix.SockaddrInet4).Port)), port(to)).Seal(b, 0)
	if wrong {
		b[len(b)-1]++
	}
	return h.sendBytes(fd, to, b)
}

// sendBytes sends any bytes. A full queue drops them.
func (h *hostile) sendBytes(fd int, to netip.Addr, b []byte) error {
	err := unix.Sendto(fd, b, 0, &unix.SockaddrInet4{Port: packet.Port, Addr: to.As4()})
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.ENOBUFS) || errors.Is(err, unix.ECONNREFUSED) {
		return nil
	}
	return err
}

// head returns a packet with a BTH.
func head(h packet.BTH) []byte {
	var b [packet.BTHSize]byte
	h.PKey = 0xffff
	h.Put(&b)
	return b[:]
}

// flood sends what is no packet, packets with wrong ICRCs, packets for queue pairs that do not exist, and
// connection requests, from a stranger and in the name of the peer.
func (h *hostile) flood() error {
	return h.burst(64, mostPackets, func() error {
		to, peer := h.victim()
		from := strangers
		if h.r.IntN(2) == 0 {
			from = peer.Address
		}
		op := packet.MakeOpcode(packet.Service(h.r.IntN(8)), packet.Operation(h.r.IntN(32)))
		body := make([]byte, 4*h.r.IntN(256))
		for i := range body {
			body[i] = byte(h.r.Uint32())
		}
		b := append(head(packet.BTH{Opcode: op, DestQP: h.r.Uint32() & 0xffffff, PSN: h.r.Uint32() & 0xffffff,
			AckReq: true}), body...)
		switch h.r.IntN(4) {
		case 0:
			fd, err := h.from(from)
			if err != nil {
				return err
			}
			return h.sendBytes(fd, to.Address, body)
		case 1:
			binary.BigEndian.PutUint32(b[4:], to.QPN)
			return h.send(from, to.Address, b, true)
		case 2:
			return h.send(from, to.Address, b, false)
		default:
			const request = 0x10 // CM: ConnectRequest
			return h.send(from, to.Address, h.management(request), false)
		}
	})
}

// management returns a datagram of the connection manager with an attribute and random contents.
func (h *hostile) management(attribute uint16) []byte {
	b := head(packet.BTH{Opcode: packet.MakeOpcode(packet.UD, packet.SendOnly), DestQP: 1,
		PSN: h.r.Uint32() & 0xffffff})
	var d [packet.DETHSize]byte
	packet.DETH{QKey: 0x80010000, SrcQP: 1}.Put(&d)
	b = append(b, d[:]...)
	var mad [256]byte
	for i := 24; i < len(mad); i++ {
		mad[i] = byte(h.r.Uint32())
	}
	mad[0], mad[1], mad[2], mad[3] = 1, 7, 2, 3 // version, class communication management, its version, Send
	binary.BigEndian.PutUint64(mad[8:], h.r.Uint64())
	binary.BigEndian.PutUint16(mad[16:], attribute)
	return append(b, mad[:]...)
}

// scanPackets is how many PSNs a scanner tries in a second. All 2^24 would take it more than an hour, so a
// run of a minute finds the right one once in a hundred.
const scanPackets = 4000

// scan sends WRITEs of a mark into the memory of a queue pair in the name of its peer: everything is right
// but the PSN, which counts up.
func (h *hostile) scan() error {
	return h.burst(64, scanPackets, func() error {
		to, peer := h.victim()
		memory := to.Memory[0]
		h.psn = (h.psn + 1) & 0xffffff
		b := head(packet.BTH{Opcode: packet.MakeOpcode(packet.RC, packet.WriteOnly), DestQP: to.QPN,
			PSN: h.psn, AckReq: true})
		var r [packet.RETHSize]byte
		packet.RETH{Addr: memory.Addr + atTarget, RKey: memory.RKey, Length: uint32(len(scanMark))}.Put(&r)
		return h.send(peer.Address, to.Address, append(append(b, r[:]...), scanMark...), false)
	})
}

// forge sends answers, congestion notifications and disconnect requests in the name of a peer, and
// copies of packets that it has seen.
func (h *hostile) forge() error {
	if err := h.replay(); err != nil {
		return err
	}
	return h.burst(64, mostPackets/2, func() error {
		to, peer := h.victim()
		b := packet.BTH{Opcode: packet.MakeOpcode(packet.RC, packet.Acknowledge), DestQP: to.QPN,
			PSN: h.r.Uint32() & 0xffffff}
		switch h.r.IntN(8) {
		case 0:
			b.Opcode, b.PSN, b.BECN = packet.OpCNP, 0, true
			return h.send(peer.Address, to.Address, append(head(b), make([]byte, 16)...), false)
		case 1:
			const disconnect = 0x15 // CM: DisconnectRequest
			return h.send(peer.Address, to.Address, h.management(disconnect), false)
		case 2:
			b.Opcode = packet.MakeOpcode(packet.RC, packet.Operation(h.r.IntN(32)))
			return h.send(peer.Address, to.Address, append(head(b), make([]byte, 4*h.r.IntN(16))...), false)
		}
		var a [packet.AETHSize]byte
		packet.AETH{Syndrome: [...]uint8{packet.SyndromeACK, 0x60, 0x61, 0x62, 0x63, 0x2c}[h.r.IntN(6)],
			MSN: h.r.Uint32() & 0xffffff}.Put(&a)
		return h.send(peer.Address, to.Address, append(head(b), a[:]...), false)
	})
}
