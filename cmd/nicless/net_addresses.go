//go:build linux && (amd64 || arm64)

package main

import (
	"log/slog"
	"net/netip"
	"slices"

	"github.com/nicless/nicless/netdev"
)

// An announcer is the part of a netdev.Interface that announces its addresses.
type announcer interface {
	Stats() netdev.Stats
	SetAddresses([]netip.Addr) error
}

// announceAddresses makes an interface announce the addresses that it has now. Those that it has announced
// before stay in front. Addresses for which there is no room, or that another interface has, are left out.
func announceAddresses(in announcer, now []netip.Addr, log *slog.Logger) {
	before := in.Stats().Addresses
	gone := func(a netip.Addr) bool { return !slices.Contains(now, a) }
	list := slices.DeleteFunc(slices.Clone(before), gone)
	kept := len(list)
	for _, a := range now {
		if !slices.Contains(list, a) {
			list = append(list, a)
		}
	}
	if len(list) == 0 {
		log.Warn("the interface has no address any more; peers still send to those that it had", "addresses", before)
		return
	}
	if most := netdev.MaxAddresses; len(list) > most {
		log.Warn("some addresses are not announced to peers, which cannot reach them", "addresses", list[most:], "most", most)
		list = list[:most]
	}
	if in.SetAddresses(list) != nil { // because of one of them: the others are announced one by one
		good := slices.Clone(list[:kept])
		for _, a := range list[kept:] {
			if err := in.SetAddresses(append(good, a)); err != nil {
				log.Warn("an address is not announced to peers, which cannot reach it", "address", a, "why", err.Error())
				continue
			}
			good = append(good, a)
		}
		if len(good) == kept && kept > 0 {
			_ = in.SetAddresses(good) // without those that are gone
		}
	}
	if after := in.Stats().Addresses; !slices.Equal(before, after) {
		log.Info("addresses have changed", "addresses", after)
	}
}
