package report

import (
	"bufio"
	"fmt"
	"io"

	"github.com/nicless/nicless/field/known"
)

// Page prints what is known about words: an explanation, a syndrome with its causes, or both.
func Page(w io.Writer, a known.Answer) error {
	b := bufio.NewWriter(w)
	var list []known.Cause
	if f, ok := a.Facts.Failure(); ok {
		list = known.Causes(f)
	}
	if a.Note != "" {
		fold(b, "note: ", a.Note)
	}
	if a.Explanation != nil {
		explanation(b, a.Explanation)
	}
	if s := a.Syndrome; s != nil {
		syndrome(b, s)
		vendorByte(b, s.Value, a.Vendor)
		if a.Vendor == nil {
			vendorsOf(b, s)
		}
		causes(b, s, list)
	}
	if a.Explanation == nil && a.Syndrome != nil {
		fmt.Fprintln(b, "how sure:")
		for sure := known.Documented; sure <= known.Inferred; sure++ {
			fold(b, fmt.Sprintf("  %-10s  ", sure), sure.Text())
		}
		more(b, list)
	}
	return b.Flush()
}

// explanation prints a row of docs/EXPLANATIONS.md.
func explanation(w io.Writer, e *known.Explanation) {
	fmt.Fprintf(w, "%s (%s)\n", e.Name, e.Group)
	for _, row := range [...]struct{ head, text string }{
		{"  seen:      ", e.Seen}, {"  hardware:  ", e.Why}, {"  cause:     ", e.Cause}, {"  fix:       ", e.Fix},
	} {
		fold(w, row.head, row.text)
	}
	var with string
	for _, s := range known.Syndromes() {
		for _, c := range s.Causes {
			if c.Code == e.Name {
				with += fmt.Sprintf(", 0x%02x %s", uint8(s.Value), s.Value.Error())
				break
			}
		}
	}
	if with != "" {
		fold(w, "  with:      ", "syndrome "+with[2:])
	}
}

// vendorsOf prints the vendor bytes that have been seen beside a syndrome.
func vendorsOf(w io.Writer, s *known.Syndrome) {
	head := "vendor bytes that were seen with it:\n"
	for _, v := range known.Vendors() {
		if v.Syndrome == s.Value {
			fmt.Fprint(w, head)
			head = ""
			fold(w, fmt.Sprintf("  0x%02x  ", v.Byte), fmt.Sprintf("%s (%s: %s)", v.Means, v.Sure, v.Source))
		}
	}
}

// List prints all codes, and all syndromes with their statuses.
func List(w io.Writer) error {
	b := bufio.NewWriter(w)
	group := ""
	for _, e := range known.Explanations() {
		if e.Group != group {
			group = e.Group
			fmt.Fprintf(b, "%s:\n", group)
		}
		fold(b, fmt.Sprintf("  %-18s  ", e.Name), e.Seen)
	}
	fmt.Fprintln(b, "Syndromes of error CQEs, and the status that verbs reports:")
	for _, s := range known.Syndromes() {
		status := s.Value.Status()
		fmt.Fprintf(b, "  0x%02x  %2d  %-24s  %s\n", uint8(s.Value), uint8(status), "IBV_WC_"+status.String(), s.Value.Error())
	}
	return b.Flush()
}
