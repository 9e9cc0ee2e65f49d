package known

import "slices"

// An Explanation is a row of docs/EXPLANATIONS.md: a fault, or a suspicion, that the device of
// this project explains with this code. The texts are phrases, without a full stop at the end.
type Explanation struct {
	Group string // heading on the page
	Name  string // the code, such as "key-access"; stable
	Seen  string // what the device has seen
	Why   string // what hardware does then, and why
	Cause string // the likely cause
	Fix   string // how to fix it
}

var explanations = slices.Concat(workExplanations, peerExplanations)

// Explanations returns all explanations in the order of the page. The caller owns the slice.
func Explanations() []Explanation { return slices.Clone(explanations) }

// Explain returns the explanation with this code, and whether there is one.
func Explain(code string) (Explanation, bool) {
	for _, e := range explanations {
		if e.Name == code {
			return e, true
		}
	}
	return Explanation{}, false
}
