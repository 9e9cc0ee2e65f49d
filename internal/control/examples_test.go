package control

import (
	"encoding/hex"
	"fmt"
	"os"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"
)

// notes say of some golden datagrams what no field of theirs says.
var notes = map[string]string{
	"welcome":                   "two descriptors come with it",
	"create_region answer":      "a memfd comes with it",
	"create_channel answer":     "a socket comes with it",
	"create_cq compressed":      "without a channel",
	"create_qp":                 "RC, signed, short data in CQEs",
	"create_qp with srq":        "UD, managed, receives from an SRQ",
	"create_qp with a register": "UC, with register 4",
	"modify_qp":                 "INIT to RTR",
	"address answer":            "192.0.2.1",
	"set_peer":                  "192.0.2.2",
	"alloc_mw":                  "a window of type 2",
	"rereg_mr":                  "range and access",
	"rereg_mr answer":           "another variant",
	"open_events answer":        "a socket comes with it",
	"announce_to":               "to all",
	"next_announcement":         "after client 7",
	"event":                     "the send queue has drained",
	"explanation":               "a WRITE with ds 0",
}

const mostColumns = 110

// A describer is a walker that writes the payload of a message as lines of hexadecimal digits, each with a
// comment that has the names and values of its fields. It takes the bytes from the encoder, and fields that
// fit into a line share it.
type describer struct {
	payload []byte // what the encoder has made
	off     int    // of the next field in payload
	widest  int
	out     strings.Builder
	digits  []string // of the line that is not written yet
	names   []string
}

// line ends the line.
func (d *describer) line() {
	if len(d.digits) > 0 {
		fmt.Fprintf(&d.out, "%s  # %s\n", strings.Join(d.digits, " "), strings.Join(d.names, ", "))
	}
	d.digits, d.names = nil, nil
}

// add adds digits to the line, or begins another line with them.
func (d *describer) add(digits, name string) {
	long := len(strings.Join(append(d.digits[:len(d.digits):len(d.digits)], digits), " ")) + 4 +
		len(strings.Join(append(d.names[:len(d.names):len(d.names)], name), ", "))
	if long > mostColumns {
		d.line()
	}
	d.digits, d.names = append(d.digits, digits), append(d.names, name)
}

// pad adds the padding before a field, or at the end, which is at a multiple of align.
func (d *describer) pad(align int) {
	d.widest = max(d.widest, align)
	if n := (align - d.off%align) % align; n > 0 {
		d.add(hex.EncodeToString(d.payload[d.off:d.off+n]), "padding")
		d.off += n
	}
}

func (d *describer) number(name string, size int, v uint64) {
	d.pad(size)
	said := fmt.Sprint(v)
	if v >= 256 {
		said = fmt.Sprintf("%#x", v)
	}
	d.add(hex.EncodeToString(d.payload[d.off:d.off+size]), name+" "+said)
	d.off += size
}

func (d *describer) u8(name string, v *uint8)   { d.number(name, 1, uint64(*v)) }
func (d *describer) u16(name string, v *uint16) { d.number(name, 2, uint64(*v)) }
func (d *describer) u32(name string, v *uint32) { d.number(name, 4, uint64(*v)) }
func (d *describer) u64(name string, v *uint64) { d.number(name, 8, *v) }

func (d *describer) bytes(name string, v []byte) {
	if text := strings.TrimRight(string(v), "\x00"); text != "" && strings.IndexFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) < 0 {
		name += fmt.Sprintf(" %q", text)
	}
	const most = 32 // in a line
	for d.line(); len(v) > most; v = v[most:] {
		fmt.Fprintf(&d.out, "%x\n", v[:most])
		d.off += most
	}
	d.add(hex.EncodeToString(v), name)
	d.off += len(v)
}

func (d *describer) text(name string, v *string) {
	d.line()
	d.add(fmt.Sprintf("%q", *v), name)
	d.off, d.widest = len(d.payload), 1
}

// example is a golden datagram as docs/CONTROL.md shows it.
func example(name string, op Op, flags uint16, tag uint64, m Message) string {
	b := Append(nil, op, flags, tag, m)
	what := "request"
	switch {
	case op == OpOpenEvents && tag == 0:
		what = "event"
	case flags&FlagError != 0:
		what = "refusal"
	case flags&FlagAnswer != 0:
		what = "answer"
	}
	d := describer{payload: b[HeaderSize:], widest: 1}
	head := fmt.Sprintf("%s: %s, %d bytes, tag %d", what, kind(m), len(d.payload), tag)
	if notes[name] != "" {
		head += "; " + notes[name]
	}
	m.walk(&d)
	d.pad(d.widest)
	d.line()
	return fmt.Sprintf("```hex %s\n%x %x %x %x  # %s\n%s```\n", name, b[0:2], b[2:4], b[4:8], b[8:16], head, d.out.String())
}

// docs/CONTROL.md has the golden datagrams as examples, as example describes them. With UPDATE_DOCS=1 the
// test writes them there.
func TestPageShowsTheGoldenDatagrams(t *testing.T) {
	const path, begin, end = "../../docs/CONTROL.md", "<!-- begin: examples of internal/control -->\n", "<!-- end -->\n"
	var want []string
	unused := make(map[string]bool)
	for name := range notes {
		unused[name] = true
	}
	for _, g := range golden {
		want = append(want, example(g.name, g.op, g.flags, g.tag, g.m))
		delete(unused, g.name)
	}
	require.Empty(t, unused, "notes of no golden datagram")
	list := strings.Join(want, "\n")
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	before, rest, ok := strings.Cut(string(b), begin)
	require.True(t, ok, "the page has the line %q", begin)
	got, after, ok := strings.Cut(rest, end)
	require.True(t, ok, "the page has the line %q", end)
	if os.Getenv("UPDATE_DOCS") != "" {
		require.NoError(t, os.WriteFile(path, []byte(before+begin+list+end+after), 0o644))
		return
	}
	require.Equal(t, list, got, "UPDATE_DOCS=1 go test ./internal/control -run PageShows updates it")
}

// The bytes of an example on the page, without its comments, are those of the golden datagram, which were
// written by hand.
func TestExamplesAreTheBytesWrittenByHand(t *testing.T) {
	p := readPage(t)
	for _, g := range golden {
		require.Equal(t, unhex(t, g.bytes), unhex(t, p.examples[g.name]), g.name)
		for line := range strings.Lines(p.examples[g.name]) {
			require.LessOrEqual(t, len(strings.TrimSpace(line)), mostColumns, line)
		}
		delete(p.examples, g.name)
	}
	require.Empty(t, p.examples, "examples that are no golden datagram")
}
