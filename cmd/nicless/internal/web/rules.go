//go:build linux && (amd64 || arm64)

package web

import (
	"errors"
	"sync"

	"github.com/nicless/nicless"
	"github.com/nicless/nicless/fault"
	"github.com/nicless/nicless/fault/rulefile"
)

// ruleset is the rules of faults that this server has switched on. They end when they are switched off, and
// with the server.
type ruleset struct {
	socket string

	mu     sync.Mutex
	text   string // as the page has sent it
	rules  fault.Rules
	c      *nicless.Context // nil: no rules are on
	faults *nicless.Faults
}

// A rulesFrame says which rules are on.
type rulesFrame struct {
	On    bool        `json:"on"`
	Text  string      `json:"text"`
	Rules []ruleFrame `json:"rules"`
}

type ruleFrame struct {
	Rule  string `json:"rule"`
	Acted uint64 `json:"acted"` // how often
}

// set switches rules on, in place of those that are on.
func (s *ruleset) set(text string) error {
	r, err := rulefile.Parse("rules", []byte(text))
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = s.drop() // of what has gone, nobody needs to know why it ends badly
	c := s.c
	if c == nil {
		if c, err = nicless.Dial(s.socket); err != nil {
			return err
		}
	}
	f, err := c.Faults(*r)
	if err != nil {
		if c != s.c {
			err = errors.Join(err, c.Close())
		}
		return err
	}
	s.text, s.rules, s.c, s.faults = text, *r, c, f
	return nil
}

// off switches the rules off.
func (s *ruleset) off() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.drop(); err != nil || s.c == nil {
		return err
	}
	err := errors.Join(s.faults.Close(), s.c.Close())
	s.c, s.faults = nil, nil
	return err
}

// drop closes the context of an engine that has ended: the rules have ended with it.
func (s *ruleset) drop() error {
	if s.c == nil || !gone(s.c) {
		return nil
	}
	err := s.c.Close()
	s.c, s.faults = nil, nil
	return err
}

// now says which rules are on, and how often each has acted.
func (s *ruleset) now() (*rulesFrame, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = s.drop()
	f := &rulesFrame{On: s.c != nil, Text: s.text, Rules: []ruleFrame{}}
	if s.c == nil {
		return f, nil
	}
	acted, err := s.faults.Counts()
	if err != nil {
		return nil, err
	}
	for i, n := range acted {
		f.Rules = append(f.Rules, ruleFrame{Rule: s.rules.Rules[i].String(), Acted: n})
	}
	return f, nil
}

// gone reports whether the engine of a context has ended.
func gone(c *nicless.Context) bool {
	select {
	case <-c.Done():
		return true
	default:
		return false
	}
}
