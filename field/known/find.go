package known

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/field/devx"
)

// An Answer is what Find knows about words: an explanation, a syndrome, a vendor byte, or
// several of these.
type Answer struct {
	Explanation *Explanation
	Syndrome    *Syndrome // its Value is 0 for a general error, which has many syndromes
	Vendor      *uint8
	Facts       Facts  // what the words say beyond that
	Note        string // how the words were read, if that is not certain
}

// maxWords is the longest text that Find reads. Error texts are one line, or a few.
const maxWords = 64 << 10

// Find returns what is known about a code of docs/EXPLANATIONS.md, a syndrome ("0x13"), a syndrome and a
// vendor byte ("0x13 0x88"), a vendor byte alone ("vendor 0x52", or "0x52", which is no syndrome), a status
// of verbs ("10", "status 10", "IBV_WC_REM_ACCESS_ERR", "remote access error") or a text that has them. For
// words that are unknown, the error names the nearest names.
func Find(words string) (Answer, error) {
	if len(words) > maxWords {
		return Answer{}, fmt.Errorf("a text of %d bytes; at most %d are read", len(words), maxWords)
	}
	words = strings.TrimSpace(words)
	if e, ok := Explain(strings.ToLower(words)); ok {
		return Answer{Explanation: &e}, nil
	}
	if a, ok := byNumber(words); ok {
		if a.Syndrome != nil && a.Facts.Syndrome != nil && !isNamed(*a.Facts.Syndrome) {
			if v, err := asVendor(uint8(*a.Facts.Syndrome)); err == nil {
				return v, nil
			}
			return Answer{}, fmt.Errorf("no public header names syndrome 0x%02x; verbs reports such a completion as IBV_WC_GENERAL_ERR",
				uint8(*a.Facts.Syndrome))
		}
		return a, nil
	}
	if m := twoNumbers.FindStringSubmatch(words); m != nil {
		if s, vendor := small(m[1]), small(m[2]); s != nil && vendor != nil && isNamed(cqe.Syndrome(*s)) {
			syndrome := cqe.Syndrome(*s)
			return about(Facts{Syndrome: &syndrome, Vendor: vendor}, "read as a syndrome and a vendor byte"), nil
		}
	}
	if strings.EqualFold(words, "general error") {
		status := cqe.StatusGeneral
		return about(Facts{Status: &status}, ""), nil
	}
	if s, ok := byName(words); ok {
		return about(Facts{Syndrome: &s}, ""), nil
	}
	var f Facts
	for line := range strings.Lines(words) {
		f.Add(ParseLine(strings.TrimSpace(line)))
	}
	a := about(f, "")
	switch {
	case a.Explanation != nil || a.Syndrome != nil:
		return a, nil
	case f.Vendor != nil:
		return withVendor(f)
	case f.Command != 0:
		if words, ok := devx.Refused(f.Command); ok {
			return Answer{}, fmt.Errorf("syndrome 0x%08x is that of a firmware command: if nicless has refused it, for %s; "+
				"vendors publish no table of theirs", f.Command, words)
		}
		return Answer{}, fmt.Errorf("syndrome 0x%06x is that of a firmware command; the vendor publishes no table of these", f.Command)
	}
	if e, ok := codeIn(words); ok {
		return Answer{Explanation: &e}, nil
	}
	if near := Near(words); len(near) > 0 {
		return Answer{}, fmt.Errorf("nothing is known about %s; the nearest names are %s", Quote(words), strings.Join(near, ", "))
	}
	return Answer{}, fmt.Errorf("nothing is known about %s", Quote(words))
}

// about returns the rows for facts.
func about(f Facts, note string) (a Answer) {
	a.Facts, a.Note, a.Vendor = f, note, f.Vendor
	if e, ok := Explain(f.Code); ok {
		a.Explanation = &e
	}
	if s, ok := f.Cause(); ok {
		row, _ := AboutSyndrome(s)
		a.Syndrome = &row
	} else if f.Status != nil && *f.Status == cqe.StatusGeneral {
		a.Syndrome = &general
	}
	return a
}

// withVendor returns the row of a vendor byte alone, if one syndrome has it.
func withVendor(f Facts) (Answer, error) {
	rows := WithVendorByte(*f.Vendor)
	if len(rows) == 0 {
		return Answer{}, fmt.Errorf("vendor byte 0x%02x has not been seen in public; give the syndrome too", *f.Vendor)
	}
	f.Syndrome = &rows[0].Syndrome
	note := fmt.Sprintf("the syndrome is not given; vendor byte 0x%02x was seen with this one", *f.Vendor)
	for _, other := range rows[1:] {
		note += fmt.Sprintf(", and with 0x%02x, %s", uint8(other.Syndrome), other.Syndrome.Error())
	}
	return about(f, note), nil
}

// asVendor returns the rows of a number that was given as a syndrome and is none, if it is a vendor byte:
// programs call both "syndrome".
func asVendor(n uint8) (Answer, error) {
	a, err := withVendor(Facts{Vendor: &n})
	a.Note = fmt.Sprintf("0x%02x is no syndrome that a public header names, so it is read as a vendor syndrome (byte 54); %s", n, a.Note)
	return a, err
}

var (
	onlyNumber = regexp.MustCompile(`(?i)^(status|wc status|syndrome|synd|vendor|vendor_err|vendor syndrome)?\s*[:=]?\s*(0x[0-9a-f]+|[0-9]+)$`)
	twoNumbers = regexp.MustCompile(`(?i)^(0x[0-9a-f]+)[\s,/]+(0x[0-9a-f]+)$`)
	wordInText = regexp.MustCompile(`[a-z]+(?:-[a-z]+)+`)
)

// byNumber reads a number, alone or after one word. Hexadecimal numbers are syndromes, and
// decimal ones statuses, because programs print them so.
func byNumber(words string) (Answer, bool) {
	m := onlyNumber.FindStringSubmatch(words)
	if m == nil {
		return Answer{}, false
	}
	n := small(m[2])
	if n == nil || *n == 0 {
		return Answer{}, false
	}
	kind, hex := strings.ToLower(m[1]), strings.HasPrefix(strings.ToLower(m[2]), "0x")
	syndrome, status := cqe.Syndrome(*n), cqe.WCStatus(*n)
	switch {
	case strings.HasPrefix(kind, "vendor"):
		a, err := withVendor(Facts{Vendor: n})
		return a, err == nil
	case strings.HasPrefix(kind, "synd"), kind == "" && hex:
		return about(Facts{Syndrome: &syndrome}, ""), true
	case kind == "":
		return about(Facts{Status: &status}, fmt.Sprintf("read as status %d of verbs; write 0x%02x for the syndrome %d", *n, *n, *n)), hasRow(status)
	}
	return about(Facts{Status: &status}, ""), hasRow(status)
}

// isNamed reports whether a public header names a syndrome.
func isNamed(s cqe.Syndrome) bool {
	_, ok := AboutSyndrome(s)
	return ok
}

func hasRow(s cqe.WCStatus) bool {
	_, ok := OfStatus(s)
	return ok || s == cqe.StatusGeneral
}

// byName reads a name of an enumeration, with or without its prefix, or of this project.
func byName(words string) (cqe.Syndrome, bool) {
	name := strings.ToUpper(words)
	for _, prefix := range [...]string{"IBV_WC_", "IB_WC_", "MLX5_CQE_SYNDROME_"} {
		name = strings.TrimPrefix(name, prefix)
	}
	if s, ok := syndromeNames[name]; ok {
		return s, true
	}
	if status, ok := statusByName(name); ok && status != cqe.StatusSuccess {
		return OfStatus(status)
	}
	for _, row := range syndromes {
		if strings.EqualFold(row.Value.Name(), words) || strings.EqualFold(row.Value.Error(), words) {
			return row.Value, true
		}
	}
	return 0, false
}

// codeIn returns the first code with a hyphen that a text has.
func codeIn(words string) (Explanation, bool) {
	for _, w := range wordInText.FindAllString(strings.ToLower(words), -1) {
		if e, ok := Explain(w); ok {
			return e, true
		}
	}
	return Explanation{}, false
}

// Names returns all names that Find takes: codes, then statuses without IBV_WC_.
func Names() (names []string) {
	for _, e := range explanations {
		names = append(names, e.Name)
	}
	for _, s := range syndromes {
		names = append(names, s.Value.Status().String())
	}
	return slices.Clip(names)
}
