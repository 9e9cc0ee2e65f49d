//go:build linux && (amd64 || arm64)

package request

import (
	"maps"
	"slices"

	"github.com/nicless/nicless/engine/internal/mailbox"
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/engine/internal/survey"
	"github.com/nicless/nicless/trace"
)

// inPortions calls f with each element of a list, between steps, as few at a time as when objects are
// destroyed. Elements may be gone when f is called.
func inPortions[T any](e Device, list []T, f func(T)) {
	for some := range slices.Chunk(list, object.Portion) {
		e.DoWith(mailbox.NoWork, func() {
			for _, x := range some {
				f(x)
			}
		})
	}
}

// unfollow takes watches away from c and its queues.
func (e Device) unfollow(c *object.Client, mask uint32) {
	var queues []*object.QP
	var cqs []*object.CQ
	e.DoWith(mailbox.NoWork, func() {
		if c.Watched&mask != 0 {
			c.Follows, c.Watched = c.Follows&^mask, c.Watched&^mask
			queues, cqs = slices.Collect(maps.Values(c.QPs)), slices.Collect(maps.Values(c.CQs))
		}
	})
	inPortions(e, queues, func(q *object.QP) {
		if q.Watched&mask != 0 {
			q.Unwatch(mask)
			if mask&e.WatchesSanitize != 0 {
				e.EndCustody(q)
			}
		}
	})
	inPortions(e, cqs, func(q *object.CQ) { q.SetWatched(q.Watched &^ mask) })
}

// followAll adds a watch to a client that may have objects, if the watch is for it.
func (e Device) followAll(c *object.Client, number int) {
	mask := uint32(1) << number
	var queues []*object.QP
	var cqs []*object.CQ
	var srqs []*object.SRQ
	var keys []*object.Mkey
	e.DoWith(mailbox.NoWork, func() {
		if e.follow(c, number) { // from now on, new objects of the client are followed
			queues, cqs = slices.Collect(maps.Values(c.QPs)), slices.Collect(maps.Values(c.CQs))
			keys, srqs = slices.Collect(maps.Values(c.MRs)), slices.Collect(maps.Values(c.SRQs))
		}
	})
	inPortions(e, keys, func(k *object.Mkey) {
		if c.MRs[k.Key>>8] == k {
			e.recordKey(k, mask, trace.KeyMade)
		}
	})
	inPortions(e, cqs, func(q *object.CQ) {
		q.SetWatched(q.Watched | mask)
		if !q.Gone {
			recordCQ(e, q, mask, trace.KeyMade)
		}
	})
	inPortions(e, srqs, func(s *object.SRQ) {
		if !s.Gone {
			recordSRQ(e, s, mask, trace.KeyMade)
		}
	})
	inPortions(e, queues, func(q *object.QP) {
		if q.Client == c && !q.Dead { // a target of XRC that c has opened may belong to another user
			q.Watch(mask)
			e.recordQueue(q, mask)
		}
	})
}

// follow adds a watch to a client, but not to its objects. It returns false if the watch is not for the
// client, or the client has gone.
func (e Device) follow(c *object.Client, number int) bool {
	w, mask := e.Watches[number], uint32(1)<<number
	_, there := c.Shard.Clients[c]
	if w == nil || !there || c.Follows&mask != 0 || !follows(w, c) {
		return false
	}
	c.Follows |= mask
	c.Watched |= mask
	e.recordClient(c, mask)
	return true
}

// follows reports whether w is of all that c does. Its owner does not watch itself.
func follows(w *object.Watcher, c *object.Client) bool {
	if c == w.Owner || !maySee(w.Owner, c) {
		return false
	}
	switch {
	case w.PID != 0:
		return w.PID == c.Hosted.PID
	case w.Program != "":
		return w.Program == c.Program
	}
	return w.All
}

// maySee reports whether c may watch other.
func maySee(c, other *object.Client) bool { return survey.Sees(c.UID, other) }

// seesAll reports whether c may watch the clients of all users.
func seesAll(c *object.Client) bool { return survey.SeesAll(c.UID) }

// followNew adds to a new client all watches that are for it.
func followNew(e Device, c *object.Client) {
	for number, w := range e.Watches {
		if w != nil {
			e.follow(c, number)
		}
	}
}
