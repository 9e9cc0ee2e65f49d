//go:build linux && (amd64 || arm64)

package roce

import (
	"github.com/nicless/nicless/fabric"
	"github.com/nicless/nicless/fabric/auth"
)

func (c *authCounts) stats() AuthStats {
	return AuthStats{
		Asked: c.requests.Load(), Cookies: c.cookies.Load(), Answered: c.answered.Load(),
		OverBudget: c.overBudget.Load(), Begun: c.begun.Load(), Done: c.done.Load(),
		Refused: c.refused.Load(), Failed: c.failed.Load(),
	}
}

// proven reports whether the peer has had a session, and so a key that this end has accepted. r is nil on
// links without keys.
func (r *remote) proven() bool {
	return r != nil && (r.send.Load() != nil || r.got.Load() > 0)
}

// report adds to a peer what is known of its key. r is nil on links without keys.
func (r *remote) report(peer *fabric.Peer) {
	if r == nil {
		return
	}
	if s := r.send.Load(); s != nil {
		peer.Keys = s.Report(s.since)
		return
	}
	if r.plain.Load() {
		peer.Keys = auth.ReportPlain
		return
	}
	peer.Keys = auth.ReportNone
	if !peer.Up {
		return
	}
	peer.Up, peer.Why = false, "no handshake yet"
	if state := r.state.Load(); state != nil {
		peer.Why, peer.Since = state.why, state.since
	}
}
