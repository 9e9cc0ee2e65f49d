//go:build linux && (amd64 || arm64)

package netdev

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
)

// A claim says how firmly an interface has its addresses. Of two interfaces with one address, that with the
// lower claim keeps it.
type claim uint8

const (
	given  claim = iota // by a user: the interface keeps them
	picked              // by Pick, and the interface has them
	bid                 // by Pick, which waits whether another interface has them
)

func (c claim) flags() byte {
	switch c {
	case picked:
		return flagPicked
	case bid:
		return flagPicked | flagBid
	}
	return 0
}

// claimOf is the inverse of flags.
func claimOf(flags byte) (c claim, known bool) {
	for c := given; c <= bid; c++ {
		if c.flags() == flags {
			return c, true
		}
	}
	return given, false
}

// before reports whether an interface keeps an address that another one has, too. Of two that have picked it
// this is the one that announces it to all users: it does not see the other if that is another user's. If
// both do, or none does, it is the one with the lower life. All interfaces come to the same result, because a
// and b announce what it depends on. If users have given the address to both, neither gives way: both go on,
// and each peer takes the one that it has known first.
func (a *announcement) before(b *announcement) bool {
	if a.claim != b.claim {
		return a.claim < b.claim
	}
	if a.toAll != b.toAll && a.claim != given {
		return a.toAll
	}
	return a.claim == given || a.life < b.life
}

// ErrGaveWay says that an interface has picked an address that another interface keeps. Clash wraps it.
var ErrGaveWay = errors.New("the picked address is another interface's")

// A Clash is the error of an interface that has to give up an address.
type Clash struct {
	Address netip.Addr
	Name    string // of the interface that keeps it
	Engine  uint64 // GUID of its engine
}

func (c *Clash) Error() string {
	return fmt.Sprintf("netdev: %v: interface %s of engine %016x: %v", c.Address, c.Name, c.Engine, ErrGaveWay)
}

func (c *Clash) Unwrap() error { return ErrGaveWay }

// clash returns a Clash if another interface keeps an address that this one has
// picked.
func (in *Interface) clash(found *announcement, device uint64) error {
	if in.cfg.Picked == nil || found.life == in.life {
		return nil
	}
	own := announcement{life: in.life, claim: picked, toAll: in.cfg.AllUsers}
	if own.before(found) {
		return nil
	}
	for _, ip := range found.addresses {
		if slices.Contains(in.cfg.Addresses, ip) && slices.Contains(in.addresses(), ip) {
			return &Clash{Address: ip, Name: found.name, Engine: device}
		}
	}
	return nil
}
