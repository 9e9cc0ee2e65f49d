package sanitize

import (
	"fmt"

	"github.com/nicless/nicless/trace"
	"github.com/nicless/nicless/wqe"
)

// startKeys reports that a WQE was posted which uses a key that was deregistered before.
func (s *Sanitizer) startKeys(w *work) {
	for _, u := range w.used {
		s.keyUsed(w, u, "before the WQE was posted")
	}
}

// endKeys reports that a key of a WQE was deregistered while the WQE was in flight.
func (s *Sanitizer) endKeys(w *work) {
	for _, u := range w.used {
		s.keyUsed(w, u, "while the WQE was in flight")
	}
	w.used = nil
}

func (s *Sanitizer) keyUsed(w *work, u use, when string) {
	g, ok := s.keys.gone[u.key]
	if !ok {
		return
	}
	c := s.clients[g.client]
	o := s.table.Queue(w.queue.number)
	if c == nil || (u.remote && o != nil && o.Info.Port != 0) {
		return // it went with its client, or it is a key of another device
	}
	about := subject{code: KeyGone, a: w.queue.number, b: u.key}
	if !s.wanted(about, Error) {
		return
	}
	does := "use of a local key"
	if u.remote {
		does = "use of a remote key"
	}
	a := s.workAccess(w, does)
	a.Key = u.key
	s.keyGone(about, a, c, g, when)
}

func (s *Sanitizer) keyGone(about subject, a Access, c *client, g gone, when string) {
	b := s.clientAccess(c, "deregistration")
	b.Key, b.Ticks = about.b, g.time
	hint := "A key belongs to its WQEs until their completions were polled."
	if a.PID != b.PID || a.Client != b.Client {
		hint = "The program that deregisters memory has to tell its peers before, and to wait until they have answered."
	}
	s.report(about, Report{
		Text:     fmt.Sprintf("the key 0x%x is used after it was deregistered, %s", about.b, when),
		Accesses: []Access{a, b}, Hint: hint,
	})
}

// receiveKeys reports that a message gets a receive whose key was deregistered.
func (s *Sanitizer) receiveKeys(e *trace.Event, c *client, r *receive, list []wqe.Data) {
	for _, d := range list {
		g, ok := s.keys.gone[d.LKey]
		owner := s.clients[g.client]
		about := subject{code: KeyGone, a: e.Queue, b: d.LKey}
		if !ok || owner == nil || !s.wanted(about, Error) {
			continue
		}
		if r == nil {
			r = &receive{index: e.Index, queue: e.Queue, shared: e.Count != 0, client: c}
			r.stack = s.receiveStack(r)
		}
		a := s.receiveAccess(r, mostPieces)
		a.Does, a.Key = "use of the key of a receive", d.LKey
		s.keyGone(about, a, owner, g, "while the receive was posted")
	}
}
