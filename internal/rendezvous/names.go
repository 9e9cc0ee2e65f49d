package rendezvous

import (
	"encoding/binary"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/nicless/nicless/internal/control"
)

// MaxName is the most bytes of a name, as of a label of DNS.
const MaxName = 63

// CheckName returns why a program cannot listen under a name, or nil.
func CheckName(name string) error {
	switch {
	case name == "":
		return control.Errorf(control.CodeInvalid, "empty name; 1 to %d bytes are possible", MaxName)
	case len(name) > MaxName:
		return control.Errorf(control.CodeInvalid, "name of %d bytes; at most %d are possible", len(name), MaxName)
	case !utf8.ValidString(name):
		return control.Errorf(control.CodeInvalid, "name %q is not UTF-8", name)
	case strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) || r == '@' || r == ' ' }):
		return control.Errorf(control.CodeInvalid, "name %q has @, a space or a character that cannot be printed", name)
	}
	return nil
}

// Names are those under which a client listens, and the box to which one dials.
type Names struct {
	Box  uint64
	List []string
}

// The names follow what the client announces itself: the number of the box, for each name its length in a
// byte and its bytes; then the length of all this in two bytes, and the mark. Numbers are little-endian.
const (
	mark     = "\x00names1"
	tailSize = 2 + len(mark)
	boxSize  = 8
)

// Join returns the announcement of a client that announces value and listens under names. It returns an error
// if that is more than an announcement can be.
func Join(value string, n Names) (string, error) {
	if len(n.List) == 0 {
		return value, nil
	}
	b := binary.LittleEndian.AppendUint64([]byte(value), n.Box)
	for _, name := range n.List {
		b = append(append(b, byte(len(name))), name...)
	}
	b = binary.LittleEndian.AppendUint16(b, uint16(len(b)-len(value)))
	b = append(b, mark...)
	if len(b) > control.MaxAnnouncement {
		return "", control.Errorf(control.CodeLimit,
			"%d names, with what the program announces itself, need %d bytes; an announcement has at most %d", len(n.List), len(b), control.MaxAnnouncement)
	}
	return string(b), nil
}

// Split returns what a client announces itself, and its names. An announcement whose end is not of the form
// of names has none.
func Split(announcement string) (value string, n Names) {
	body, ok := strings.CutSuffix(announcement, mark)
	if !ok || len(body) < 2 {
		return announcement, Names{}
	}
	size := int(binary.LittleEndian.Uint16([]byte(body[len(body)-2:])))
	body = body[:len(body)-2]
	if size < boxSize+2 || size > len(body) {
		return announcement, Names{}
	}
	value, body = body[:len(body)-size], body[len(body)-size:]
	n.Box = binary.LittleEndian.Uint64([]byte(body))
	for body = body[boxSize:]; body != ""; {
		end := 1 + int(body[0])
		if end > len(body) || CheckName(body[1:end]) != nil {
			return announcement, Names{}
		}
		n.List = append(n.List, body[1:end])
		body = body[end:]
	}
	if n.Box == 0 {
		return announcement, Names{}
	}
	return value, n
}
