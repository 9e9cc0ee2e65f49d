//go:build linux && (amd64 || arm64)

package request

import (
	"slices"

	"github.com/nicless/nicless/engine/internal/execution"
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/engine/internal/quota"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/nic"
)

// Join adds a queue pair to a multicast group.
func (c *Client) Join(qpn uint32, gid [16]byte, how nic.Membership) (err error) {
	c.Mu.Lock()
	defer c.Mu.Unlock()
	if c.Closed {
		return object.ErrClosed
	}
	c.Device.Do(func() { err = c.join(qpn, gid, how) })
	return err
}

func (c *Client) join(qpn uint32, gid [16]byte, how nic.Membership) error {
	e, q := c.Device, c.QPs[qpn]
	switch {
	case q == nil:
		return object.NotFound("QP", qpn)
	case q.Transport != control.QPTypeUD:
		return execution.ErrNotUD
	}
	g := e.Groups[gid]
	switch {
	case g == nil && len(e.Groups) >= nic.MaxGroups:
		return execution.ErrManyGroups
	case g != nil && slices.ContainsFunc(g.Members, func(m object.Member) bool { return m.QP == q }):
		return nil
	case g != nil && len(g.Members) >= nic.MaxMembers:
		return execution.ErrManyMembers
	}
	if err := e.Ledger.Take(c.UID, quota.Charge{quota.Memory: object.MembershipCost}); err != nil {
		return err
	}
	if g == nil {
		g = &object.Group{GID: gid}
		e.Groups[gid] = g
	}
	e.Joined++
	g.Members = append(g.Members, object.Member{Number: e.Joined, QP: q, How: how})
	q.Datagrams.Groups = append(q.Datagrams.Groups, g)
	return nil
}

// Leave takes a queue pair out of a multicast group.
func (c *Client) Leave(qpn uint32, gid [16]byte) error {
	c.Mu.Lock()
	defer c.Mu.Unlock()
	if c.Closed {
		return object.ErrClosed
	}
	c.Device.Do(func() {
		if q := c.QPs[qpn]; q != nil && q.Datagrams != nil {
			if i := slices.IndexFunc(q.Datagrams.Groups,
				func(g *object.Group) bool { return g.GID == gid }); i >= 0 {
				c.Device.Leave(q, q.Datagrams.Groups[i])
				q.Datagrams.Groups = slices.Delete(q.Datagrams.Groups, i, i+1)
			}
		}
	})
	return nil
}
