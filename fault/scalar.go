package fault

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/internal/nearest"
	"github.com/nicless/nicless/wqe"
)

// The values of fields are written as people write them: 0x4d2, 5ms, all, 64..4096. In JSON, each may be a
// string, and what is a number in YAML may be a number.

// A Number is a number of at most 64 bits, decimal or, after 0x, hexadecimal.
type Number uint64

// A Duration is a time, as Go writes it, or Forever.
type Duration time.Duration

// Forever is the Duration that does not end.
const Forever Duration = math.MaxInt64

// A Count says how often, or All.
type Count int

// All is the Count without an end.
const All Count = -1

// A Range is the numbers from Least to Most, both included; the zero Range is all numbers.
type Range struct{ Least, Most uint64 }

// Has reports whether n is in the range.
func (r Range) Has(n uint64) bool { return r == Range{} || n >= r.Least && n <= r.Most }

// A Transport is a transport and 1; 0 is all transports.
type Transport uint8

// On returns the Transport that stands for t.
func On(t wqe.Transport) Transport { return Transport(t) + 1 }

// Opcodes is a set of opcodes: bit n stands for opcode n. The empty set is all opcodes.
type Opcodes uint64

// Has reports whether a set has an opcode.
func (o Opcodes) Has(op wqe.Opcode) bool { return o == 0 || op < 64 && o>>op&1 != 0 }

// Only returns the set of some opcodes.
func Only(ops ...wqe.Opcode) (o Opcodes) {
	for _, op := range ops {
		o |= 1 << op
	}
	return o
}

// A Syndrome is a syndrome of package cqe. Its text is the name of the constant in lower case with hyphens,
// such as remote-access, or a number.
type Syndrome cqe.Syndrome

// text returns the text of a JSON string or number.
func text(b []byte) (s string, err error) {
	if len(b) > 0 && b[0] == '"' {
		err = json.Unmarshal(b, &s)
		return s, err
	}
	return string(b), nil
}

func (n *Number) UnmarshalText(b []byte) error {
	v, err := strconv.ParseUint(string(b), 0, 64)
	if err != nil {
		return fmt.Errorf("%q is not a number from 0 to 2^64-1", b)
	}
	*n = Number(v)
	return nil
}

func (n Number) MarshalText() ([]byte, error) { return fmt.Appendf(nil, "%#x", uint64(n)), nil }

func (d *Duration) UnmarshalText(b []byte) error {
	if string(b) == "forever" {
		*d = Forever
		return nil
	}
	v, err := time.ParseDuration(string(b))
	if err != nil || v <= 0 {
		return fmt.Errorf("%q is not a time such as 5ms, nor forever", b)
	}
	*d = Duration(v)
	return nil
}

func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// String returns the time, such as "5ms", or "forever".
func (d Duration) String() string {
	if d == Forever {
		return "forever"
	}
	return time.Duration(d).String()
}

func (c *Count) UnmarshalText(b []byte) error {
	if string(b) == "all" {
		*c = All
		return nil
	}
	v, err := strconv.ParseUint(string(b), 0, 31)
	if err != nil || v == 0 {
		return fmt.Errorf("%q is not a number from 1 to 2147483647, nor all", b)
	}
	*c = Count(v)
	return nil
}

func (c Count) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// String returns the number, or "all".
func (c Count) String() string {
	if c == All {
		return "all"
	}
	return strconv.Itoa(int(c))
}

func (r *Range) UnmarshalText(b []byte) error {
	least, most, both := strings.Cut(string(b), "..")
	if !both {
		most = least
	}
	ok := least != "" || most != ""
	v := Range{0, math.MaxUint64}
	for _, x := range []struct {
		text string
		to   *uint64
	}{{least, &v.Least}, {most, &v.Most}} {
		if x.text != "" {
			n, err := strconv.ParseUint(x.text, 0, 64)
			*x.to, ok = n, ok && err == nil
		}
	}
	if !ok || v.Least > v.Most || v == (Range{}) {
		return fmt.Errorf("%q is not a range of numbers such as 64, 64.., ..4096 or 64..4096", b)
	}
	*r = v
	return nil
}

func (r Range) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// String returns the range, such as "64..4096".
func (r Range) String() string {
	switch {
	case r.Least == r.Most:
		return strconv.FormatUint(r.Least, 10)
	case r.Most == math.MaxUint64:
		return fmt.Sprintf("%d..", r.Least)
	}
	return fmt.Sprintf("%d..%d", r.Least, r.Most)
}

// transports has the transports by the names that rules use.
var transports = map[string]wqe.Transport{
	"RC": wqe.RC, "UC": wqe.UC, "UD": wqe.UD, "XRC": wqe.TransportXRC, "DCI": wqe.DC,
}

func (t *Transport) UnmarshalText(b []byte) error {
	v, ok := transports[strings.ToUpper(string(b))]
	if !ok {
		return fmt.Errorf("%q is not a transport: RC, UC, UD, XRC or DCI", b)
	}
	*t = On(v)
	return nil
}

func (t Transport) MarshalText() ([]byte, error) {
	for name, v := range transports {
		if On(v) == t {
			return []byte(name), nil
		}
	}
	return nil, fmt.Errorf("fault: there is no transport %d", t)
}

// UnmarshalJSON takes the name of an opcode, or a list of names.
func (o *Opcodes) UnmarshalJSON(b []byte) error {
	var names []string
	if len(b) > 0 && b[0] == '[' {
		if err := json.Unmarshal(b, &names); err != nil {
			return err
		}
	} else {
		name, err := text(b)
		if err != nil {
			return err
		}
		names = []string{name}
	}
	var v Opcodes
	for _, name := range names {
		op, ok := opcodeOf(name)
		if !ok {
			return fmt.Errorf("%q is not an opcode of a WQE%s", name, near(name, opcodeNames(), ", such as RDMA_WRITE"))
		}
		v |= 1 << op
	}
	*o = v
	return nil
}

// MarshalJSON returns the list of the opcodes' names.
func (o Opcodes) MarshalJSON() ([]byte, error) {
	names := []string{}
	for op := range wqe.Opcode(64) {
		if o>>op&1 != 0 {
			names = append(names, op.String())
		}
	}
	return json.Marshal(names)
}

// near names the word of a list that was probably meant; if none is much like it, it returns other.
func near(word string, list []string, other string) string {
	if hint := nearest.Hint(word, list); hint != "" {
		return hint
	}
	return other
}

func opcodeNames() (names []string) {
	for op := range wqe.Opcode(64) {
		if i := op.Info(); i.Known() {
			names = append(names, i.Name)
		}
	}
	return names
}

// syndromeNames returns the names of all syndromes that have one.
func syndromeNames() (names []string) {
	for v := range 256 {
		if s := Syndrome(v).String(); !strings.HasPrefix(s, "0x") {
			names = append(names, s)
		}
	}
	return names
}

func opcodeOf(name string) (wqe.Opcode, bool) {
	for op := range wqe.Opcode(64) {
		if i := op.Info(); i.Known() && strings.EqualFold(i.Name, name) {
			return op, true
		}
	}
	return 0, false
}

func (s *Syndrome) UnmarshalText(b []byte) error {
	for v := range 256 {
		if strings.EqualFold(Syndrome(v).String(), string(b)) {
			*s = Syndrome(v)
			return nil
		}
	}
	v, err := strconv.ParseUint(string(b), 0, 8)
	if err != nil || v == 0 {
		other := ": a number from 1 to 255, or a name such as remote-access"
		return fmt.Errorf("%q is not a syndrome%s", b, near(string(b), syndromeNames(), other))
	}
	*s = Syndrome(v)
	return nil
}

func (s Syndrome) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// String returns the name of a syndrome, such as "remote-access", or its number.
func (s Syndrome) String() string {
	name := cqe.Syndrome(s).Name()
	if strings.Contains(name, "(") {
		return fmt.Sprintf("%#02x", uint8(s))
	}
	b := make([]byte, 0, len(name)+4)
	for i := range len(name) {
		c, upper := name[i], name[i] >= 'A' && name[i] <= 'Z'
		if upper && i > 0 && (name[i-1] >= 'a' || i+1 < len(name) && name[i+1] >= 'a') {
			b = append(b, '-')
		}
		if upper {
			c += 'a' - 'A'
		}
		b = append(b, c)
	}
	return string(b)
}

// In JSON, numbers may be numbers, too.

func (n *Number) UnmarshalJSON(b []byte) error   { return fromJSON(b, n.UnmarshalText) }
func (c *Count) UnmarshalJSON(b []byte) error    { return fromJSON(b, c.UnmarshalText) }
func (r *Range) UnmarshalJSON(b []byte) error    { return fromJSON(b, r.UnmarshalText) }
func (s *Syndrome) UnmarshalJSON(b []byte) error { return fromJSON(b, s.UnmarshalText) }

func fromJSON(b []byte, take func([]byte) error) error {
	s, err := text(b)
	if err != nil {
		return err
	}
	return take([]byte(s))
}
