//go:build linux && (amd64 || arm64)

package main

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"

	"github.com/nicless/nicless"
	"github.com/nicless/nicless/netdev"
)

// Networks from which nicless net up picks addresses if the user names none. Every interface has to know them
// before it knows another one, so they are constants. That of IPv4 is a part of 100.64.0.0/10, which no
// network of a site has for its hosts (RFC 6598): 10.0.0.0/8, 172.16.0.0/12 and 192.168.0.0/16 are those of
// sites, containers and homes. It has 65534 addresses, 63 times what the MaxPeers of a network need, and its
// number is the letter n. That of IPv6 is a local one (RFC 4193) whose number is the word nicless.
var (
	pickFrom4 = netip.MustParsePrefix("100.110.0.0/16")
	pickFrom6 = netip.MustParsePrefix("fd6e:6963:6c65:7373::/64")
)

// leastMTU6 is the least MTU with which an interface can have addresses of IPv6.
const leastMTU6 = 1280

// picks says from what addresses are picked; nil if the user gives addresses.
func (f *netFlags) picks() (*netdev.Picks, error) {
	const example = "nicless net up --prefix 10.9.0.0/16 --engine $XDG_RUNTIME_DIR/nicless.sock"
	if len(f.addresses) > 0 {
		if len(f.prefixes) > 0 {
			return nil, usagef("--addr is the address; with --prefix one is picked",
				"net up: --addr %s and --prefix %s exclude each other", f.addresses[0], f.prefixes[0])
		}
		return nil, nil
	}
	p := &netdev.Picks{Name: f.name, AllUsers: f.allUsers}
	for _, text := range f.prefixes {
		prefix, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, usagef(example, "net up: --prefix %q is not a network such as 10.9.0.0/16 or fd00:9::/64", text)
		}
		if err := netdev.CheckPrefix(prefix); err != nil {
			return nil, usagef(example, "net up: --prefix %q: %v", text, err)
		}
		if err := f.checkMTU("--prefix", prefix); err != nil {
			return nil, err
		}
		p.Prefixes = append(p.Prefixes, prefix)
	}
	if most := netdev.MaxAddresses; len(p.Prefixes) > most {
		return nil, usagef(example, "net up: %d prefixes; at most %d are possible", len(p.Prefixes), most)
	}
	if len(p.Prefixes) == 0 {
		p.Prefixes = append(p.Prefixes, pickFrom4)
		if f.mtu >= leastMTU6 && has6() {
			p.Prefixes = append(p.Prefixes, pickFrom6)
		}
	}
	return p, f.unused(p.Prefixes)
}

// checkMTU returns an error if the interface cannot have an address of a network because of its MTU.
func (f *netFlags) checkMTU(flag string, p netip.Prefix) error {
	if !p.Addr().Is6() || f.mtu >= leastMTU6 {
		return nil
	}
	return usagef(fmt.Sprintf("--mtu %d, or addresses of IPv4 alone", leastMTU6),
		"net up: %s %v with MTU %d; IPv6 needs at least %d", flag, p, f.mtu, leastMTU6)
}

// has6 reports whether a new interface of this host can have addresses of IPv6.
func has6() bool {
	b, err := os.ReadFile("/proc/sys/net/ipv6/conf/default/disable_ipv6")
	return err == nil && strings.TrimSpace(string(b)) == "0"
}

// unused returns an error if another interface of this host has an address whose network overlaps those from
// which addresses are picked: the kernel would send packets of one network through the other.
func (f *netFlags) unused(list []netip.Prefix) error {
	all, err := net.Interfaces()
	if err != nil {
		return fmt.Errorf("net up: interfaces of this host: %w", err)
	}
	for _, other := range all {
		addresses, err := other.Addrs()
		if err != nil || other.Name == f.name {
			continue
		}
		for _, a := range addresses {
			has, err := netip.ParsePrefix(a.String())
			if err != nil {
				continue
			}
			for _, p := range list {
				if p.Overlaps(has) {
					return hintf("choose another network, the same at all nodes: --prefix 10.9.0.0/16",
						"net up: interface %s of this host has %v, and addresses would be picked from %v", other.Name, has, p)
				}
			}
		}
	}
	return nil
}

// seed is from what a node derives the address that it tries first: its name, and what tells it from others
// of this name. The GUID of an engine stays from start to start, and so do the links of one in this process:
// with node= they differ between the nodes of a pool.
func (f *netFlags) seed(c *nicless.Context, host string) string {
	if f.engine == "" {
		return fmt.Sprint(host, f.links)
	}
	return fmt.Sprintf("%s %016x", host, c.Device())
}

// pick picks the addresses of the interface.
func (f *netFlags) pick(ctx context.Context, c *nicless.Context, w *wanted) error {
	p := *w.picks
	p.Seed = f.seed(c, w.cfg.Host)
	got, err := netdev.Pick(ctx, c, p)
	if err != nil {
		return fmt.Errorf("net up: %w", err)
	}
	w.cfg.Picked = got
	w.tun.Addresses, w.cfg.Addresses = got.Addresses, nil
	for _, a := range got.Addresses {
		w.cfg.Addresses = append(w.cfg.Addresses, a.Addr())
	}
	return nil
}

// hostName is the name under which peers find this node: that of --host, or that of this computer. It is ""
// if the computer has none of its own.
func (f *netFlags) hostName() (string, error) {
	if f.host != "" {
		if err := netdev.CheckHost(f.host); err != nil {
			return "", usagef("--host web-1, which peers find as web-1.nicless", "net up: --host: %v", err)
		}
		return f.host, nil
	}
	name, err := os.Hostname()
	if host := netdev.Host(name); err == nil && host != "localhost" {
		return host, nil
	}
	return "", nil
}
