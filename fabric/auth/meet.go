//go:build linux && (amd64 || arm64)

package auth

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"time"
)

// Meet does the handshake over a stream, and returns the session and what the other end's carrier has added
// to its offer. carrier is as for [Party.Handshake], payload what this end adds. It takes at most the
// time within; afterwards the stream has no deadline. Frames are a length (2 bytes, big-endian) and a
// message. No byte is read from the stream beyond the meeting. The caller closes the stream if there is an
// error. An error that wraps [ErrRefused] says that one of the ends does not accept the other.
func (p *Party) Meet(
	conn net.Conn, carrier string, initiator bool, payload []byte, within time.Duration,
) (*Session, []byte, error) {
	if err := conn.SetDeadline(time.Now().Add(within)); err != nil {
		return nil, nil, fmt.Errorf("auth: meet: %w", err)
	}
	from, err := addressOf(conn.RemoteAddr())
	if err != nil {
		return nil, nil, err
	}
	h, err := p.Handshake(carrier, initiator, from, 0, payload)
	if err != nil {
		return nil, nil, err
	}
	if initiator {
		err = h.initiate(conn)
	} else {
		err = h.respond(conn)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("auth: meet %v: %w", from, err)
	}
	return h.Session(), h.Payload(), conn.SetDeadline(time.Time{})
}

func (h *Handshake) initiate(conn net.Conn) error {
	if err := h.writeTo(conn); err != nil {
		return err
	}
	refused := h.readFrom(conn, Message2Size)
	if refused != nil && (!errors.Is(refused, ErrRefused) || h.Verdict() == UnknownKey) {
		return refused
	}
	if err := h.writeTo(conn); err != nil || refused != nil {
		return errors.Join(refused, err)
	}
	b, err := readFrame(conn, verdictSize)
	if err != nil {
		return err
	}
	v, err := h.session.OpenVerdict(h.session.Opener(), b)
	if err == nil && v != Accepted {
		err = &Refusal{Verdict: v, ByPeer: true, Key: h.session.Remote}
	}
	return err
}

func (h *Handshake) respond(conn net.Conn) error {
	if err := h.readFrom(conn, Message1Size); err != nil {
		return err
	}
	if err := h.writeTo(conn); err != nil {
		return err
	}
	refused := h.readFrom(conn, Message3Size)
	if refused != nil && !errors.Is(refused, ErrRefused) {
		return refused
	}
	err := writeFrame(conn, h.session.SealVerdict(h.session.Sealer(), h.Verdict()))
	return errors.Join(refused, err)
}

func (h *Handshake) writeTo(conn net.Conn) error {
	b, err := h.Write()
	if err != nil {
		return err
	}
	return writeFrame(conn, b)
}

func (h *Handshake) readFrom(conn net.Conn, size int) error {
	most := size
	if size != Message1Size {
		most += MostPayload
	}
	b, err := readFrame(conn, most)
	if err != nil {
		return err
	}
	return h.Read(b)
}

func writeFrame(conn net.Conn, b []byte) error {
	frame := binary.BigEndian.AppendUint16(make([]byte, 0, 2+len(b)), uint16(len(b)))
	_, err := conn.Write(append(frame, b...))
	return err
}

func readFrame(conn net.Conn, most int) ([]byte, error) {
	var length [2]byte
	if _, err := io.ReadFull(conn, length[:]); err != nil {
		return nil, err
	}
	n := int(binary.BigEndian.Uint16(length[:]))
	if n > most {
		return nil, fmt.Errorf("a frame of %d bytes; at most %d are possible here", n, most)
	}
	b := make([]byte, n)
	_, err := io.ReadFull(conn, b)
	return b, err
}

// addressOf returns the IP address of the other end of a stream.
func addressOf(a net.Addr) (netip.Addr, error) {
	if tcp, ok := a.(*net.TCPAddr); ok {
		return tcp.AddrPort().Addr().Unmap(), nil
	}
	return netip.Addr{}, fmt.Errorf("auth: %v is no address of TCP; keys belong to IP addresses", a)
}

// verdictSize is the size of message 4: a counter, a verdict and a tag.
const verdictSize = 8 + 1 + TagSize

// SealVerdict returns message 4 of the responder, which is the first thing that it seals in a session.
func (s *Session) SealVerdict(with *Sealer, v Verdict) []byte {
	b := make([]byte, verdictSize)
	counter, _ := with.Next()
	binary.BigEndian.PutUint64(b, counter)
	b[8] = byte(v)
	with.Seal(b, 8, counter)
	return b
}

// OpenVerdict reads what SealVerdict has returned.
func (s *Session) OpenVerdict(with *Opener, b []byte) (Verdict, error) {
	if len(b) != verdictSize || with.Open(b, 8, binary.BigEndian.Uint64(b)) != Good {
		return 0, errors.New("auth: no verdict of this session")
	}
	return Verdict(b[8]), nil
}
