//go:build linux && (amd64 || arm64)

package main

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"time"

	"github.com/nicless/nicless/netdev"
)

// mostGiven is how often within givenTime an interface gives its picked address to another one, as when two
// fabrics become one. A client that announces every address that this one picks then ends it, in place of
// keeping it busy. A fabric that comes apart and together again every few hours ends nobody.
const (
	mostGiven = 8
	givenTime = 24 * time.Hour
)

// A given is a picked address that another interface has got.
type given struct {
	address netip.Addr
	since   time.Time
}

// recent are those of the last givenTime.
type recent []given

// add adds an address. It reports whether that may go on.
func (r *recent) add(a netip.Addr, now time.Time) bool {
	*r = slices.DeleteFunc(*r, func(g given) bool { return now.Sub(g.since) >= givenTime })
	*r = append(*r, given{a, now})
	return len(*r) <= mostGiven
}

// addresses are not picked again. Those of earlier days have been announced since, if they are in use.
func (r *recent) addresses() (list []netip.Addr) {
	for _, g := range *r {
		list = append(list, g.address)
	}
	return list
}

// runAgain runs an interface, and again with other addresses when another interface keeps those that this one
// has picked.
func runAgain(
	ctx context.Context, w wanted, run func(context.Context, wanted) error, now func() time.Time,
) error {
	var gave recent
	for {
		err := run(ctx, w)
		var clash *netdev.Clash
		if !errors.As(err, &clash) {
			return err
		}
		if !gave.add(clash.Address, now()) {
			return hintf("give an address: --addr", "net up: %d addresses were given away within %v: %w", len(gave), givenTime, err)
		}
		w.picks.Kept = gave.addresses()
		w.cfg.Log.Warn("the interface begins anew with another address", "why", err.Error())
	}
}
