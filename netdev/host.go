//go:build linux && (amd64 || arm64)

package netdev

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// MaxHost is the most bytes of a host's name: a label of DNS has 63 (RFC 1035, 2.3.4).
const MaxHost = 63

// CheckHost returns an error if a name is no label of a host: 1 to MaxHost lower-case letters, digits and
// hyphens, with a hyphen neither first nor last (RFC 1123, 2.1).
func CheckHost(name string) error {
	if n := len(name); n == 0 || n > MaxHost {
		return fmt.Errorf("netdev: host's name %q of %d bytes; 1 to %d are possible", name, n, MaxHost)
	}
	odd := strings.ContainsFunc(name, func(r rune) bool { return !inLabel(r) })
	if odd || strings.Trim(name, "-") != name {
		return fmt.Errorf("netdev: host's name %q; letters a to z, digits and hyphens inside are possible", name)
	}
	return nil
}

func inLabel(r rune) bool { return strings.ContainsRune("abcdefghijklmnopqrstuvwxyz0123456789-", r) }

// Host makes a name that CheckHost accepts of any name: that of a computer, for instance. It keeps what is
// before the first dot, in lower case, and has hyphens in place of all else. It is "" if nothing remains.
func Host(name string) string {
	name, _, _ = strings.Cut(name, ".")
	label := strings.Map(func(r rune) rune {
		if !inLabel(r) {
			return '-'
		}
		return r
	}, strings.ToLower(name))
	label = strings.TrimLeft(label, "-")
	return strings.TrimRight(label[:min(len(label), MaxHost)], "-")
}

// HostAddresses returns the addresses of a host by its name; none if no interface has it. If several have it,
// it is this interface's own, or else that of the peer whose first address is the lowest: so all others
// agree. It is safe for concurrent use.
func (in *Interface) HostAddresses(host string) []netip.Addr {
	if host == "" {
		return nil
	}
	if host == in.cfg.Host {
		return in.addresses()
	}
	for _, p := range in.routes.Load().all { // sorted by their first addresses
		if p.announced.host == host {
			return p.announced.addresses
		}
	}
	return nil
}

// HostOf returns the name of the host whose interface has an address, also if another one has the same name;
// "" if none has it, or one without a name. It is safe for concurrent use.
func (in *Interface) HostOf(ip netip.Addr) string {
	if slices.Contains(in.addresses(), ip) {
		return in.cfg.Host
	}
	if p := in.routes.Load().byAddress[ip]; p != nil {
		return p.announced.host
	}
	return ""
}

// warnOfHost logs that a new peer has the name of another interface.
func (in *Interface) warnOfHost(found *announcement) {
	same := []netip.Addr{found.addresses[0]}
	for _, p := range in.peers {
		if p.announced.host == found.host && p.announced.life != found.life {
			same = append(same, p.announced.addresses[0])
		}
	}
	if found.host == in.cfg.Host {
		same = append(same, in.addresses()[0])
	}
	if found.host != "" && len(same) > 1 {
		slices.SortFunc(same, netip.Addr.Compare)
		in.log.Warn("interfaces have the same name of a host; others find the first one by it", "host", found.host,
			"addresses", same[:min(len(same), MaxAddresses)])
	}
}
