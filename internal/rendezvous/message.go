package rendezvous

import (
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/nicless/nicless/internal/control"
)

// Kind is what a message says.
type Kind uint8

// Kinds.
const (
	Dial   Kind = iota + 1 // the body is the Descriptor of the dialler's queue pair
	Hold                   // the listener has got the Dial and has not decided yet
	Accept                 // the body is the Descriptor of the listener's
	Reject                 // the body is the reason, in words
	Ready                  // the dialler's queue pair is connected
	Cancel                 // the dialler has given up
)

// A Message is what dialler and listener say to each other. The dialler has chosen ID, at random.
type Message struct {
	Name string // of a Dial: the name that was dialled
	Kind Kind
	ID   uint64
	Body string
}

const headSize = 1 + 1 + 8

// The most bytes of a body. A Dial has room for the longest name.
const (
	MaxBody     = control.MaxMessageValue - headSize
	MaxDialBody = MaxBody - MaxName
)

// Append appends the form of m to dst: the length of the name in a byte, the name, the kind in a byte, the ID
// in eight, little-endian, and the body.
func (m *Message) Append(dst []byte) []byte {
	dst = append(append(dst, byte(len(m.Name))), m.Name...)
	dst = append(dst, byte(m.Kind))
	dst = binary.LittleEndian.AppendUint64(dst, m.ID)
	return append(dst, m.Body...)
}

// ParseMessage reads a message.
func ParseMessage(b string) (m Message, err error) {
	if len(b) < headSize || len(b) > control.MaxMessageValue {
		return m, fmt.Errorf("message of %d bytes; %d to %d are possible", len(b), headSize, control.MaxMessageValue)
	}
	n := int(b[0])
	if headSize+n > len(b) {
		return m, fmt.Errorf("message of %d bytes with a name of %d", len(b), n)
	}
	m.Name, b = b[1:1+n], b[1+n:]
	m.Kind, m.ID, m.Body = Kind(b[0]), binary.LittleEndian.Uint64([]byte(b[1:])), b[9:]
	switch {
	case m.Kind < Dial || m.Kind > Cancel:
		return Message{}, fmt.Errorf("message of kind %d; %d to %d are known", m.Kind, Dial, Cancel)
	case m.Kind == Dial:
		err = CheckName(m.Name)
	case n > 0:
		err = fmt.Errorf("message of kind %d with a name", m.Kind)
	}
	if err != nil {
		return Message{}, err
	}
	return m, nil
}

// Dialled returns the name that a value dials, as it is there, and whether it dials one. Only the kind at its
// place counts: a reader that checks less than ParseMessage may take the value for a Dial, too.
func Dialled(b string) (name string, ok bool) {
	if b == "" {
		return "", false
	}
	n := int(b[0])
	if len(b) < 1+n+1 || Kind(b[1+n]) != Dial {
		return "", false
	}
	return b[1:][:n], true
}

// Text returns a reason for a Reject, cut to the room that there is.
func Text(reason string) string {
	return strings.ToValidUTF8(reason[:min(len(reason), MaxBody)], "")
}
