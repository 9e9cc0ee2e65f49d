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
	msgHello   = 1
	msgConnect = 2
	msgAccept  = 3
	msgRefuse  = 4
	msgEnd     = 5

	msgReady  = 16
	msgFatal  = 17
	msgMet    = 18
	msgUp     = 19
	msgGone   = 20
	msgCounts = 21

	messageHead = 32
	maxRemote   = 64 // bytes of a peer's network address
	maxMessage  = messageHead + maxRemote + maxGreeting
	maxGreeting = 12288 // GREETING of carrier/carrier.h: most bytes of a hello that the process passes on
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
	m = message{kind: uint16(head >> 48), number: uint32(head), a: be.Uint64(b[8:]), b: be.Uint64(b[16:]), c: be.Uint64(b[24:]), body: b[messageHead:]}
	ok := head>>32&0xffff == 0
	switch m.kind {
	case msgReady, msgCounts:
		ok = ok && len(m.body) == 0
	case msgUp:
		ok = ok && len(m.body) == 0 && m.number != 0
	case msgMet:
		ok = ok && m.number != 0 && m.b <= maxRemote && m.b <= uint64(len(m.body))
	case msgFatal, msgGone:
		ok = ok && len(m.body) > 0
	default:
		ok = false
	}
	if !ok {
		return message{}, fmt.Errorf("%w: type %d, number %d, %d bytes", errMessage, m.kind, m.number, len(b))
	}
	return m, nil
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
