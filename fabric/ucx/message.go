//go:build linux && (amd64 || arm64)

package ucx

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Types of messages between this process and the carrier's. carrier/control.h has the same
// list, and says what the fields are.
const (
	msgOpen   = 1
	msgClose  = 2
	msgSocket = 3
	msgEnd    = 5

	msgReady  = 16
	msgFatal  = 17
	msgTry    = 18
	msgUp     = 19
	msgGone   = 20
	msgCounts = 21

	messageHead = 32
	maxMessage  = messageHead + 20480 // MESSAGE of carrier/control.h
)

// A message is one datagram on the socket between the two processes.
type message struct {
	kind    uint16
	number  uint32
	a, b, c uint64
	body    []byte
}

var errMessage = errors.New("ucx: the process has sent a message that is not valid")

// append appends the message to b.
func (m *message) append(b []byte) []byte {
	b = be.AppendUint64(b, uint64(m.kind)<<48|uint64(m.number))
	b = be.AppendUint64(b, m.a)
	b = be.AppendUint64(b, m.b)
	b = be.AppendUint64(b, m.c)
	return append(b, m.body...)
}

// parseMessage reads a message of the process. The body is part of b. An error wraps errMessage.
func parseMessage(b []byte) (m message, err error) {
	if len(b) < messageHead || len(b) > maxMessage {
		return m, fmt.Errorf("%w: %d bytes", errMessage, len(b))
	}
	head := be.Uint64(b)
	m = message{
		kind: uint16(head >> 48), number: uint32(head),
		a: be.Uint64(b[8:]), b: be.Uint64(b[16:]), c: be.Uint64(b[24:]), body: b[messageHead:],
	}
	ok := head>>32&0xffff == 0
	switch m.kind {
	case msgReady:
		ok = ok && m.b <= maxDoors &&
			uint64(len(m.body)) >= m.b*doorSize+leastWorker && uint64(len(m.body)) <= m.b*doorSize+maxWorker
	case msgCounts, msgTry:
		ok = ok && len(m.body) == 0
	case msgUp:
		ok = ok && len(m.body) == 0 && m.number != 0
	case msgFatal:
		ok = ok && len(m.body) > 0
	case msgGone:
		ok = ok && len(m.body) > 0 && m.number != 0
	default:
		ok = false
	}
	if !ok {
		return message{}, fmt.Errorf("%w: type %d, number %d, %d bytes", errMessage, m.kind, m.number, len(b))
	}
	return m, nil
}

// An opening is what msgOpen says of a connection; parse in carrier/control.c has the layout.
type opening struct {
	number, path         uint32
	here, there          [tokenSize]byte
	keyOut, keyIn        [keySize]byte
	cipher               byte // cipherNone and the others
	encrypt, active, any bool
	to                   doorName
	doors                []doorName
	tickets              [][ticketSize]byte
	worker               []byte
}

const (
	keySize = 32

	cipherNone   = 0
	cipherAES    = 1 // AES-256-GCM
	cipherChaCha = 2 // ChaCha20-Poly1305
)

func (o *opening) message() *message {
	flag := func(b bool) byte {
		if b {
			return 1
		}
		return 0
	}
	var b []byte
	for _, part := range [][]byte{o.here[:], o.there[:], o.keyOut[:], o.keyIn[:]} {
		b = append(b, part...)
	}
	b = append(b, o.cipher, flag(o.encrypt), flag(o.active), flag(o.any), byte(len(o.doors)),
		byte(len(o.tickets)))
	b = be.AppendUint16(b, uint16(len(o.worker)))
	b = append(b, o.to[:]...)
	b = append(b, 0, 0, 0, 0)
	for _, d := range o.doors {
		b = append(b, d[:]...)
	}
	for _, t := range o.tickets {
		b = append(b, t[:]...)
	}
	return &message{kind: msgOpen, number: o.number, a: uint64(o.path), body: append(b, o.worker...)}
}

// text returns bytes of a message as text for the log: what a peer may have chosen is quoted if
// it is not plain.
func text(b []byte) string {
	s := string(b)
	if !utf8.ValidString(s) || strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return fmt.Sprintf("%q", s)
	}
	return s
}
