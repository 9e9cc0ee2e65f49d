package pool

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// A node writes into its part what its engine does, a summary, when another node looks: that node counts its
// looks in the first line of its own part. So a look costs no packets and no rings, and an engine at which
// nobody looks does nothing for it.
//
// The summary is at summaryAt, written as a board is (board.go). The pool does not know what is in it.

// summarySize is how many bytes of a part there are for a summary, mostSummary how many of them it may have.
const (
	summaryAt   = describeAt + describeSize
	summarySize = boardAt - summaryAt
	mostSummary = summarySize - boardHead
)

// SetSummary sets the function that returns the summary of this engine, at most 704 bytes, or "" if there
// is none at the moment. It is called on a goroutine of its own when another node looks, and may wait for
// the engine. Call it once.
func (p *Pool) SetSummary(f func() string) {
	p.loops.Go(func() {
		for {
			select {
			case <-p.run.Done():
				return
			case <-p.summarize:
				if err := p.putSummary(f()); err != nil {
					p.cfg.Log.Warn("the summary of this engine is not written", "link", p.Name(), "error", err)
				}
			}
		}
	})
}

// wakeSummary makes the goroutine of SetSummary write a summary, if there is one.
func (p *Pool) wakeSummary() {
	select {
	case p.summarize <- struct{}{}:
	default: // it is about to
	}
}

// putSummary publishes a summary.
func (p *Pool) putSummary(s string) error {
	if len(s) > mostSummary {
		return fmt.Errorf("a summary of %d bytes; at most %d are possible", len(s), mostSummary)
	}
	return p.guard(func() error {
		p.own.Lock()
		defer p.own.Unlock()
		if p.joined && !p.mute() {
			p.view.postAt(p.part+summaryAt, []byte(s))
		}
		return nil
	})
}

// A seenSummary is how far the look at one node has come.
type seenSummary struct {
	guid, part uint64
	before     uint64 // sequence before the look
	missing    bool
}

// Summaries looks at what all nodes that can be reached do, and returns what they have written, by the GUIDs
// of their engines. It waits until all have, for d at most. Safe for concurrent use.
func (p *Pool) Summaries(ctx context.Context, d time.Duration) map[uint64]string {
	var nodes []seenSummary
	for s := range p.state.Load().peers {
		if s.up && s.guid != 0 {
			n := seenSummary{guid: s.guid, part: s.link.part, missing: true}
			_, n.before, _ = p.readSummary(n.part, 0)
			nodes = append(nodes, n)
		}
	}
	all := make(map[uint64]string, len(nodes))
	for waited := time.Duration(0); len(all) < len(nodes) && waited < d; waited += tick {
		if waited%lookAgain == 0 && p.countLook() != nil {
			break
		}
		if p.time.Sleep(ctx, tick) != nil {
			break
		}
		for i := range nodes {
			p.take(all, &nodes[i])
		}
	}
	return all
}

// lookAgain is after how long a look is counted again: a node may have seen this one for the first time.
const lookAgain = 15 * tick

// countLook says to the others that this node looks.
//
// Publish: count of the looks. Observed by view.life of other nodes.
func (p *Pool) countLook() error {
	return p.guard(func() error { p.report(func(l *life) { l.looks++ }); return nil })
}

// take takes the summary of a node if the node has written it since the look, and is still the same engine:
// its number may be another one's now.
func (p *Pool) take(all map[uint64]string, n *seenSummary) {
	if !n.missing {
		return
	}
	s, _, err := p.readSummary(n.part, n.before)
	if err == nil && p.engineAt(n.part) == n.guid {
		all[n.guid], n.missing = s, false
	}
}

// engineAt returns the GUID that the description in a part has, 0 if it is not complete.
func (p *Pool) engineAt(part uint64) (guid uint64) {
	_ = p.guard(func() error {
		p.own.Lock() // which guards view.cache
		defer p.own.Unlock()
		d, _, err := p.view.described(part)
		if err == nil {
			guid = d.guid
		}
		return nil
	})
	return guid
}

// readSummary returns the summary in a node's part, or an error if it is as it was, or is not complete.
func (p *Pool) readSummary(part, known uint64) (s string, sequence uint64, err error) {
	err = p.guard(func() error {
		p.own.Lock() // which guards view.cache
		defer p.own.Unlock()
		list, n, err := p.view.postedAt(part+summaryAt, known, mostSummary)
		s, sequence = string(list), n
		return err
	})
	if err == nil && s == "" {
		err = errors.New("it has none")
	}
	return s, sequence, err
}
