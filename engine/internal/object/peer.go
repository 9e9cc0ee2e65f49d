//go:build linux && (amd64 || arm64)

package object

import "github.com/nicless/nicless/engine/internal/quota"

// ReleasePeer drops what set_peer has set for q. The path is released when the request has been served. It
// is called in requests of the client only, because the queue c.After is theirs.
func (c *Client) ReleasePeer(q *QP) {
	if q.Conn.Set != nil {
		c.After = append(c.After, q.Conn.Set.Release)
	}
	q.Conn.Set = nil
}

// Take counts one more queue pair that holds the path h. With the first queue pair, the user is charged.
func (p *heldPaths) Take(l *quota.Ledger, h HeldPath) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.counts[h] == 0 {
		if err := l.Take(h.UID, quota.Charge{quota.Paths: 1}); err != nil {
			return err
		}
	}
	if p.counts == nil {
		p.counts = make(map[HeldPath]int)
	}
	p.counts[h]++
	return nil
}

// Drop counts one queue pair less that holds the path h. With the last queue pair, the charge is refunded.
func (p *heldPaths) Drop(l *quota.Ledger, h HeldPath) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.counts[h]--
	if p.counts[h] == 0 {
		delete(p.counts, h)
		l.Refund(h.UID, quota.Charge{quota.Paths: 1})
	}
}
