//go:build linux && (amd64 || arm64)

package links

import (
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/nicless/nicless/fabric/pool"
	"github.com/nicless/nicless/fabric/ucx"
)

// Options are the links that an engine has from its start, and whether RoCE opens by itself.
type Options struct {
	Pools []pool.Config
	UCX   []ucx.Config
	Local []netip.Addr   // local addresses of RoCE that are open all the time
	Peers []netip.Prefix // the only remote addresses with which RoCE exchanges packets; nil: all
	Auto  bool           // RoCE opens by itself
}

// Parse reads the arguments of --link.
//
//	none                                  no links
//	auto                                  RoCE opens by itself; this is what happens without --link
//	roce:ADDRESS[,peer=PREFIX]...         RoCE on a local address
//	pool:PATH,node=N[,...]                memory that several engines share; see pool.Parse
//	ucx:HOST:PORT, ucx:listen=HOST:PORT   UCX, over what it finds; see ucx.Parse
func Parse(list []string) (o Options, err error) {
	if len(list) == 0 {
		return Options{Auto: true}, nil
	}
	for _, s := range list {
		kind, rest, _ := strings.Cut(s, ":")
		switch kind {
		case "none":
			if len(list) > 1 {
				return o, fmt.Errorf("link none excludes other links")
			}
		case "auto":
			o.Auto = true
		case "pool":
			c, err := pool.Parse(rest)
			if err != nil {
				return o, err
			}
			if o.has(&c) {
				return o, fmt.Errorf("link pool:%s is named twice, with offset=%d; an engine is one node of a pool, so a second pool needs another file or offset", c.Path, c.Offset)
			}
			o.Pools = append(o.Pools, c)
		case "ucx":
			c, err := ucx.Parse(rest)
			if err != nil {
				return o, err
			}
			o.UCX = append(o.UCX, c)
		case "roce":
			if err := o.parseRoCE(rest); err != nil {
				return o, err
			}
		default:
			return o, fmt.Errorf("link %q; none, auto, roce:ADDRESS, pool:PATH,node=N and ucx:HOST:PORT are possible", s)
		}
	}
	return o, nil
}

// Wait returns how long Open waits at most for pools that are not formatted: one after the other.
func (o *Options) Wait() (most time.Duration) {
	for i := range o.Pools {
		if o.Pools[i].Node != 0 {
			most += o.Pools[i].Waits()
		}
	}
	return most
}

func (o *Options) parseRoCE(s string) error {
	for i, part := range strings.Split(s, ",") {
		if prefix, ok := strings.CutPrefix(part, "peer="); ok {
			p, err := parsePrefix(prefix)
			if err != nil {
				return fmt.Errorf("link roce: %w", err)
			}
			o.Peers = append(o.Peers, p)
			continue
		}
		a, err := netip.ParseAddr(part)
		if err != nil {
			return fmt.Errorf("link roce: part %d, %q: a local IP address or peer=PREFIX is needed", i+1, part)
		}
		if err := usable(a); err != nil {
			return fmt.Errorf("link roce:%s: %w", part, err)
		}
		if slices.ContainsFunc(o.Local, func(b netip.Addr) bool { return b.Unmap() == a.Unmap() }) {
			return fmt.Errorf("link roce:%s: the address is named twice; once is enough", part)
		}
		o.Local = append(o.Local, a)
	}
	if len(o.Local) == 0 {
		return fmt.Errorf("link roce:%s: no local address", s)
	}
	return nil
}

// has reports whether a link leads to this pool already.
func (o *Options) has(c *pool.Config) bool {
	file := func(path string) string {
		if abs, err := filepath.Abs(path); err == nil {
			return abs
		}
		return path
	}
	return slices.ContainsFunc(o.Pools, func(d pool.Config) bool { return file(d.Path) == file(c.Path) && d.Offset == c.Offset })
}

// usable returns an error if other hosts cannot send to this host by the address.
func usable(a netip.Addr) error {
	const instead = "name an address of a network interface; \"ip -brief address\" lists them"
	switch a = a.Unmap(); {
	case a.IsLoopback():
		return fmt.Errorf("a loopback address leads to no other host; %s, or link engines of one host by pool:PATH,node=N", instead)
	case a.IsMulticast():
		return fmt.Errorf("a multicast address belongs to no host; %s", instead)
	case a.IsUnspecified():
		return fmt.Errorf("it stands for all addresses, and RoCE needs the one to which peers send; %s, or leave the choice to auto", instead)
	}
	return nil
}

// parsePrefix reads an address or a prefix.
func parsePrefix(s string) (netip.Prefix, error) {
	if a, err := netip.ParseAddr(s); err == nil {
		return netip.PrefixFrom(a, a.BitLen()), nil
	}
	p, err := netip.ParsePrefix(s)
	if err != nil {
		return p, fmt.Errorf("peer=%s: an address or a prefix such as 10.0.0.0/8 is needed", s)
	}
	return p, nil
}
