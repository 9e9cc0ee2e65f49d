package costs

import "fmt"

// A Trust says how far a number can be trusted. Later ones are weaker.
type Trust uint8

// The marks. Measured: on the machine at hand. Primary: the source itself was read (code, manual,
// an author's own measurement). Secondary: another author's notes of the source. Recalled: the usual order
// of magnitude, with no text at hand. Inferred: derived by an estimate that the source names.
const (
	Measured Trust = iota
	Primary
	Secondary
	Recalled
	Inferred
)

var trustLetters = "MPSRI"

var trustNames = []string{"measured here", "primary", "secondary", "recalled", "inferred"}

// String returns the mark in words.
func (t Trust) String() string { return trustNames[t] }

// Letter returns the mark as presets have it: M, P, S, R or I.
func (t Trust) Letter() string { return trustLetters[t : t+1] }

// Vague reports whether numbers that rest on t are printed with two digits.
func (t Trust) Vague() bool { return t >= Recalled }

// A Quantity is a number with its range, its trust and its source. Prices are in nanoseconds; a few
// are counts of lines.
type Quantity struct {
	Value     float64
	Low, High float64
	Trust     Trust
	Source    string
}

// absurd is the largest value of a price: a second.
const absurd = 1e9

// check returns what is wrong with the numbers of q.
func (q Quantity) check() error {
	for _, v := range []float64{q.Value, q.Low, q.High} {
		if !(v >= 0 && v <= absurd) { // also if v is NaN
			return fmt.Errorf("%v is not 0..%g", v, float64(absurd))
		}
	}
	if q.Low > q.Value || q.Value > q.High {
		return fmt.Errorf("%v is outside its range %v..%v", q.Value, q.Low, q.High)
	}
	return nil
}

// A level says which end of the ranges a calculation uses.
type level uint8

const (
	nominal level = iota
	low
	high
)

func (q Quantity) at(l level) float64 {
	return [...]float64{q.Value, q.Low, q.High}[l]
}
