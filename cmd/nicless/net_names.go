//go:build linux && (amd64 || arm64)

package main

import (
	"net/netip"
	"slices"

	"github.com/nicless/nicless/netdev"
	"github.com/nicless/nicless/netdev/names"
)

// A zone is the names of an interface's network.
type zone struct {
	*netdev.Interface
	networks []netip.Prefix
}

func (z zone) Networks() []netip.Prefix { return z.networks }

// serveNames answers queries of DNS at the addresses of an interface, whose index is through.
func serveNames(in *netdev.Interface, through int, w wanted) *names.Server {
	z := zone{Interface: in}
	for _, p := range w.tun.Addresses {
		z.networks = append(z.networks, p.Masked())
	}
	s := names.NewServer(z, through, w.cfg.Log)
	s.Listen(in.Stats().Addresses)
	return s
}

// follow has the interface announce the addresses that it has now, and names answered there.
func follow(in *netdev.Interface, s *names.Server, now []netip.Addr, w wanted) {
	announceAddresses(in, now, w.cfg.Log)
	gone := func(a netip.Addr) bool { return !slices.Contains(now, a) }
	s.Listen(slices.DeleteFunc(slices.Clone(in.Stats().Addresses), gone))
}
