package summary

import (
	"errors"
	"fmt"

	"github.com/nicless/nicless/state"
)

// A Collection is what has come of one summary. The zero value has nothing. It is not safe for concurrent
// use.
type Collection struct {
	Summary *state.Summary // nil: part 0 has not come

	generation uint32
	parts      uint8
	next       uint8 // part that is asked for
}

// Next returns the part to ask for, and whether any is missing.
func (c *Collection) Next() (part uint8, missing bool) {
	return c.next, c.Summary == nil || c.next < c.parts
}

// ErrSilent says that an engine tells nothing.
var ErrSilent = errors.New("the engine tells nothing (nicless engine --disclose)")

// Add adds an answer. It takes the part for which Next asks, and passes over others, which come when an
// answer was late. An error means that the answer is none, or that the engine tells nothing. The programs of
// a generation that has changed are collected anew, with its figures.
func (c *Collection) Add(h Head, body string) error {
	switch {
	case h.Question():
		return errors.New("a question is no answer")
	case h.Silent:
		return ErrSilent
	case h.Part != c.next:
		return nil
	case h.Part == 0:
		s, err := parseFigures(body)
		if err != nil {
			return err
		}
		if h.Parts > 1 && !s.Disclosed {
			return fmt.Errorf("%d parts of an engine that tells no programs; 1 is possible", h.Parts)
		}
		*c = Collection{Summary: s, generation: h.Generation, parts: h.Parts, next: 1}
		return nil
	case h.Generation != c.generation || h.Parts != c.parts:
		c.next, c.Summary.Programs = 0, nil
		c.parts = 1
		return nil
	}
	list, err := parsePrograms(body)
	if err != nil {
		return err
	}
	c.Summary.Programs = append(c.Summary.Programs, list...)
	c.next++
	return nil
}
