//go:build linux && (amd64 || arm64)

package linktorture

import (
	"encoding/binary"
	"errors"

	"golang.org/x/sys/unix"

	"github.com/nicless/nicless/packet"
)

const (
	ipHead   = 20
	udpHead  = 8
	mostSeen = 256 // copies that are kept
)

// replay takes packets from the loopback device, as a host on the path can, and sends copies of them,
// byte for byte with the IP header and the ICRC, now and later. A request that was executed must not be
// executed again, an atomic least of all, and an answer must not be taken twice.
func (h *hostile) replay() (err error) {
	if h.raw < 0 {
		h.raw, err = unix.Socket(unix.AF_INET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK,
			unix.IPPROTO_RAW)
		if err != nil {
			return err
		}
		const all = unix.ETH_P_ALL>>8 | unix.ETH_P_ALL&0xff<<8
		h.sniffer, err = unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK,
			all)
		if err != nil {
			return err
		}
	}
	var b [64 << 10]byte
	for range 64 {
		n, _, err := unix.Recvfrom(h.sniffer, b[:], 0)
		if errors.Is(err, unix.EAGAIN) {
			break
		}
		if err != nil {
			return err
		}
		if h.isOfVictims(b[:n]) {
			seen := append([]byte(nil), b[:n]...)
			if len(h.copies) < mostSeen {
				h.copies = append(h.copies, seen)
			} else {
				h.copies[h.r.IntN(mostSeen)] = seen
			}
		}
	}
	if len(h.copies) == 0 {
		return nil
	}
	return h.burst(32, mostPackets/2, func() error {
		c := h.copies[h.r.IntN(len(h.copies))]
		if h.r.IntN(2) == 0 {
			c = h.copies[len(h.copies)-1]
		}
		err := unix.Sendto(h.raw, c, 0, &unix.SockaddrInet4{Addr: [4]byte(c[16:20])})
		if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.ENOBUFS) || errors.Is(err, unix.EMSGSIZE) {
			return nil
		}
		return err
	})
}

// isOfVictims reports whether these bytes are an IP packet of RoCE for one of the queue pairs, of one
// datagram.
func (h *hostile) isOfVictims(b []byte) bool {
	if len(b) < ipHead+udpHead+packet.BTHSize || b[0] != 0x45 || b[9] != unix.IPPROTO_UDP ||
		binary.BigEndian.Uint16(b[ipHead+2:]) != packet.Port ||
		int(binary.BigEndian.Uint16(b[2:])) != len(b) || len(b) > packet.MaxPacket {
		return false
	}
	// Packets that the device has to cut or to check have no UDP checksum yet; none is needed.
	b[ipHead+6], b[ipHead+7] = 0, 0
	qpn := packet.ParseBTH((*[packet.BTHSize]byte)(b[ipHead+udpHead:])).DestQP
	return qpn == h.s.Victims[0].QPN || qpn == h.s.Victims[1].QPN
}
