// Package answer turns text that somebody has pasted into text that explains it, as `nicless decode` and
// `nicless explain` do. It needs no system calls, so it is built for browsers, too; a server can call it for
// browsers that run no WebAssembly.
package answer

import (
	"fmt"
	"strings"

	"github.com/nicless/nicless/field/known"
	"github.com/nicless/nicless/field/report"
	"github.com/nicless/nicless/wqe"
)

// longestName bounds, in bytes, a line that is looked up as the name or the text of an error.
const longestName = 200

// To answers a text of any length: what dumps and logs in it mean; or, if it is one line without any, what is
// known of the error that it names; or else why nothing was found. The answer is plain text with lines of
// about 80 columns, and contains what was pasted only as digits or quoted. To is safe for concurrent use.
// Its memory grows with the answer, which is bounded by the kinds of failures in the text, not by its length.
func To(pasted string) string {
	if strings.TrimSpace(pasted) == "" {
		return "Nothing was pasted.\n"
	}
	var out strings.Builder
	s, err := report.Decode(&out, strings.NewReader(pasted), report.Options{Address: wqe.AddressGuess})
	switch {
	case err != nil:
		return err.Error() + "\n"
	case s.Items > 0:
		return out.String()
	}
	line := strings.TrimSpace(pasted)
	if len(line) <= longestName && !strings.ContainsAny(line, "\r\n") && len(s.Unclear) == 0 {
		return about(line)
	}
	fmt.Fprintf(&out, "no CQE, WQE, packet or error of a completion in %d lines\n", s.Lines)
	for _, it := range s.Unclear {
		fmt.Fprintf(&out, "lines %d to %d: %s\n", it.Line, it.Last, strings.Join(it.Notes, "; "))
	}
	return out.String()
}

// about explains the words of one line.
func about(words string) string {
	a, err := known.Find(words)
	if err != nil {
		return err.Error() + "\n"
	}
	var out strings.Builder
	if err := report.Page(&out, a); err != nil {
		return err.Error() + "\n"
	}
	return out.String()
}
