//go:build linux && (amd64 || arm64)

package links

import (
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/nicless/nicless/fabric/auth"
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

	// Addresses are the only local addresses on which RoCE opens by itself. nil: the one that a path or a
	// listener names, and for a listener on all addresses those that are not public.
	Addresses []netip.Prefix

	// Users are those for whom RoCE opens by itself. Links that have a name of their own serve all clients.
	Users Users

	// Auth has the keys of RoCE, whatever opens it.
	Auth auth.Options
}

// Parse reads the arguments of --link. peer= names the only remote addresses with which RoCE exchanges
// packets, all of RoCE, in whichever argument it stands. address= names the only local addresses on which
// RoCE opens by itself. Both can be repeated; a PREFIX is an address or a prefix such as 10.0.0.0/8.
//
//	none                                     no links
//	auto[,address=PREFIX][,peer=PREFIX]...   RoCE opens by itself; the default of nicless run and of nicless
//	                                         engine --verbs, and of an empty list here
//	roce:ADDRESS[,peer=PREFIX]...            RoCE on a local address
//	auto,key=FILE..., roce:...,key=FILE      the same with keys; see auth.Options.Set. All RoCE has one key
//	pool:PATH[,node=N][,...]                 memory that several engines share; see pool.Parse
//	ucx:HOST:PORT, ucx:listen=ADDRESS:PORT   UCX, over what it finds; see ucx.Parse
func Parse(list []string) (o Options, err error) {
	if len(list) == 0 {
		return Options{Auto: true}, nil
	}
	for _, s := range list {
		kind, rest, named := strings.Cut(s, ":")
		if kind, _, _ := strings.Cut(s, ","); kind == "auto" { // its options may have colons
			if err := o.parseAuto(s); err != nil {
				return o, err
			}
			continue
		}
		switch kind {
		case "none":
			if len(list) > 1 {
				return o, fmt.Errorf("link none excludes other links")
			}
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
			if named && kind == "auto" {
				return o, fmt.Errorf("link %q; the options of auto follow a comma: auto,address=PREFIX,peer=PREFIX", s)
			}
			return o, fmt.Errorf("link %q; none, auto, roce:ADDRESS, pool:PATH and ucx:HOST:PORT are possible", s)
		}
	}
	if err := o.Auth.Check(); err != nil {
		return o, fmt.Errorf("link roce, auto: %w", err)
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

// parseAuto reads auto and its options.
func (o *Options) parseAuto(s string) error {
	o.Auto = true
	for i, part := range strings.Split(s, ",")[1:] {
		if text, ok := strings.CutPrefix(part, "address="); ok {
			p, err := parsePrefix("address", text)
			if err != nil {
				return fmt.Errorf("link auto: %w", err)
			}
			if p.IsSingleIP() {
				if err := usable(p.Addr()); err != nil {
					return fmt.Errorf("link auto: address=%s: %w", text, err)
				}
			}
			o.Addresses = append(o.Addresses, p)
			continue
		}
		if known, err := o.option(part); err != nil {
			return fmt.Errorf("link auto: %w", err)
		} else if !known {
			return fmt.Errorf("link auto: part %d, %q: address=PREFIX or peer=PREFIX is needed, or for keys one of %s", i+2, part, auth.Words)
		}
	}
	return nil
}

// option reads one of the options that auto and roce:ADDRESS share, and reports whether it is one.
func (o *Options) option(part string) (known bool, err error) {
	name, value, _ := strings.Cut(part, "=")
	switch name {
	case "peer":
		p, err := parsePrefix(name, value)
		if err != nil {
			return true, err
		}
		o.Peers = append(o.Peers, p)
		return true, nil
	}
	return o.Auth.Set(part)
}

func (o *Options) parseRoCE(s string) error {
	for i, part := range strings.Split(s, ",") {
		if known, err := o.option(part); err != nil {
			return fmt.Errorf("link roce: %w", err)
		} else if known {
			continue
		}
		a, err := netip.ParseAddr(part)
		if err != nil {
			return fmt.Errorf("link roce: part %d, %q: a local IP address or peer=PREFIX is needed, or for keys one of %s", i+1, part, auth.Words)
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
	return slices.ContainsFunc(o.Pools, func(d pool.Config) bool {
		return file(d.Path) == file(c.Path) && d.Offset == c.Offset
	})
}

// usable returns an error if other hosts cannot send to this host by the address.
func usable(a netip.Addr) error {
	const instead = "name an address of a network interface; \"ip -brief address\" lists them"
	a = a.Unmap()
	switch {
	case a.IsLoopback():
		return fmt.Errorf("a loopback address leads to no other host; %s, or link engines of one host by pool:PATH", instead)
	case a.IsMulticast():
		return fmt.Errorf("a multicast address belongs to no host; %s", instead)
	case a.IsUnspecified():
		return fmt.Errorf("it stands for all addresses, and RoCE needs the one to which peers send; %s, or leave the choice to auto", instead)
	}
	return nil
}

// parsePrefix reads an address or a prefix, the value of an option.
func parsePrefix(option, s string) (netip.Prefix, error) {
	if a, err := netip.ParseAddr(s); err == nil {
		a = a.Unmap()
		return netip.PrefixFrom(a.WithZone(""), a.BitLen()), nil
	}
	p, err := netip.ParsePrefix(s)
	if err != nil {
		return p, fmt.Errorf("%s=%s: an address or a prefix such as 10.0.0.0/8 is needed", option, s)
	}
	return p, nil
}

// within reports whether an address is in one of the prefixes.
func within(list []netip.Prefix, a netip.Addr) bool {
	a = a.Unmap()
	return slices.ContainsFunc(list, func(p netip.Prefix) bool { return p.Contains(a) })
}
