//go:build linux && (amd64 || arm64)

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/nicless/nicless"
	"github.com/nicless/nicless/fabric/links"
	"github.com/nicless/nicless/internal/tun"
	"github.com/nicless/nicless/netdev"
	"github.com/spf13/cobra"
)

const netUsage = `Makes networks of engines: "nicless net up" is a network interface of this host
whose packets travel over an engine.

Usage:
  nicless net up (--engine PATH | --link LINK) [flags]

Example:
  nicless net up --engine $XDG_RUNTIME_DIR/nicless.sock
`

const netUpUsage = `Makes a network interface (TUN) whose IP packets travel over an engine, and over
its links to other engines: through memory, without a NIC. The interfaces of
one user on an engine, and on engines linked by a pool or UCX, find each
other. The interface is there until SIGINT or SIGTERM ends the command.

Without --addr it picks an address that no other interface has, and picks it
again when it starts again, if it is free then. Each node answers DNS at its
own addresses: NAME.nicless is the node whose --host is NAME.

It works in a network namespace of your own, without root:
  unshare --user --map-root-user --net nicless net up ...
and also with CAP_NET_ADMIN, or with an interface that root has made for you
with "ip tuntap add". See docs/NUPA.md.

Usage:
  nicless net up (--engine PATH | --link LINK) [flags]

Flags:
  --addr ADDRESS/BITS  address of the interface, and how many of its bits are
                       the network's; IPv4 or IPv6; may be repeated
  --prefix NET/BITS    in place of --addr: network from which an address is
                       picked; may be repeated; the same for all nodes
                       (default: 100.110.0.0/16 and fd6e:6963:6c65:7373::/64)
  --host NAME          name of this node, for NAME.nicless: letters, digits and
                       hyphens, at most 63 (default: that of the computer)
  --engine PATH        socket of the engine
  --link LINK          in place of --engine: an engine in this process, with
                       this link; may be repeated (see nicless engine --help)
  --name NAME          name of the interface (default: nicless0n)
  --mtu N              longest packet in bytes (default: 65520)
  --slots PATH,node=N  memory in which packets travel without being copied by
                       the engine: a file, PCI BAR or DAX device that the peers
                       map too; no two interfaces may have the same node. Other
                       options: nodes=8, offset=0, size=0, coherence=none
  --plain              let the kernel cut packets to the MTU and sum them up
                       (no offloads)
  --all-users          find interfaces of other users that have this flag, too;
                       without it, those of the same uid (in a user namespace:
                       the uid outside)
  --log-level LEVEL    debug, info, warn, error or off (default: info)

Example:
  nicless net up --engine $XDG_RUNTIME_DIR/nicless.sock
  nicless net up --addr 192.168.8.100/24 --link pool:/dev/shm/pool
`

type netFlags struct {
	addresses    []string
	prefixes     []string
	host         string
	engine, name string
	links        []string
	mtu          int
	slots        string
	plain        bool
	allUsers     bool
	level        string
}

func newNet() *cobra.Command {
	c := &cobra.Command{
		Use:   "net",
		Short: "network interfaces over engines",
		Long:  netUsage,
		Args:  cobra.ArbitraryArgs,
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usagef("nicless net up is possible", "net: command %q does not exist", args[0])
			}
			return usagef("nicless net up --help", "net: a command is missing")
		},
	}
	c.AddCommand(newNetUp())
	return c
}

func newNetUp() *cobra.Command {
	var f netFlags
	c := &cobra.Command{
		Use:   "up",
		Short: "make a network interface whose packets travel over an engine",
		Long:  netUpUsage,
		Args:  noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			ctx, stop := signal.NotifyContext(c.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			context.AfterFunc(ctx, stop) // a second signal kills
			return f.up(ctx, c.OutOrStdout(), c.ErrOrStderr())
		},
	}
	c.Flags().StringArrayVar(&f.addresses, "addr", nil, "address of the interface")
	c.Flags().StringArrayVar(&f.prefixes, "prefix", nil, "network from which an address is picked")
	c.Flags().StringVar(&f.host, "host", "", "name under which peers find this node")
	c.Flags().StringVar(&f.engine, "engine", "", "socket of the engine")
	c.Flags().StringArrayVar(&f.links, "link", nil, "a link of an engine in this process")
	c.Flags().StringVar(&f.name, "name", "nicless0n", "name of the interface")
	c.Flags().IntVar(&f.mtu, "mtu", 65520, "longest packet")
	c.Flags().StringVar(&f.slots, "slots", "", "memory for packets")
	c.Flags().BoolVar(&f.plain, "plain", false, "no offloads")
	c.Flags().BoolVar(&f.allUsers, "all-users", false, "find interfaces of other users too")
	c.Flags().StringVar(&f.level, "log-level", "info", "least level that is logged")
	_ = c.MarkFlagFilename("engine")
	_ = c.RegisterFlagCompletionFunc("log-level", cobra.FixedCompletions(
		[]string{"debug", "info", "warn", "error", "off"}, cobra.ShellCompDirectiveNoFileComp))
	return c
}

// A wanted is the interface that the flags describe.
type wanted struct {
	tun   tun.Config
	cfg   netdev.Config
	picks *netdev.Picks // nil: the addresses are given
}

// up runs the interface until ctx ends.
func (f *netFlags) up(ctx context.Context, stdout, stderr io.Writer) error {
	const example = "nicless net up --engine $XDG_RUNTIME_DIR/nicless.sock"
	switch {
	case len(f.addresses) > netdev.MaxAddresses:
		return usagef(example, "net up: %d addresses; at most %d are possible", len(f.addresses), netdev.MaxAddresses)
	case f.engine == "" && len(f.links) == 0:
		return usagef(example, "net up: --engine or --link is missing")
	case f.engine != "" && len(f.links) > 0:
		return usagef("--link starts an engine in this process; links of another engine are named when it starts", "net up: --engine %s and --link %s exclude each other", f.engine, f.links[0])
	}
	w, err := f.wanted()
	if err != nil {
		return err
	}
	opened, err := links.Parse(f.links)
	if err != nil {
		return usagef("pool:PATH, ucx:HOST:PORT and others are possible; see docs/FABRIC.md", "net up: --link: %v", err)
	}
	if f.engine == "" && len(opened.Pools)+len(opened.UCX) == 0 {
		return usagef("--link pool:PATH, or ucx:HOST:PORT; where RoCE leads there is an IP network already",
			"net up: --link %s: interfaces find each other over pools and UCX only", f.links[0])
	}
	log, err := newLog("net up", f.level, stderr)
	if err != nil {
		return err
	}
	w.cfg.Log = cmp.Or(log, slog.New(slog.DiscardHandler))
	if f.slots != "" {
		c, err := netdev.ParseSlots(f.slots)
		if err != nil {
			return usagef("--slots PATH,node=N", "net up: --slots: %v", err)
		}
		if err := apart(c, opened); err != nil {
			return err
		}
		w.cfg.Slots, err = netdev.OpenSlots(c)
		if err != nil {
			return err
		}
		defer w.cfg.Slots.Close()
	}
	run := func(ctx context.Context, w wanted) error { return f.run(ctx, w, stdout) }
	return runAgain(ctx, w, run, time.Now)
}

// wanted is the interface that the flags describe, without its log and slots.
func (f *netFlags) wanted() (w wanted, err error) {
	const example = "nicless net up --addr 192.168.8.100/24 --engine $XDG_RUNTIME_DIR/nicless.sock"
	w.tun = tun.Config{Name: f.name, MTU: f.mtu, Plain: f.plain}
	w.cfg = netdev.Config{Name: f.name, MTU: f.mtu, AllUsers: f.allUsers}
	for _, a := range f.addresses {
		p, err := netip.ParsePrefix(a)
		if err != nil {
			return w, usagef(example, "net up: --addr %q is not an address and the length of its network's prefix", a)
		}
		if err := tun.CheckAddress(p); err != nil {
			return w, usagef(example, "net up: --addr: %v", err)
		}
		if err := f.checkMTU("--addr", p); err != nil {
			return w, err
		}
		w.tun.Addresses, w.cfg.Addresses = append(w.tun.Addresses, p), append(w.cfg.Addresses, p.Addr())
	}
	w.cfg.Host, err = f.hostName()
	if err != nil {
		return w, err
	}
	w.picks, err = f.picks()
	return w, err
}

// run opens everything, and runs the interface.
func (f *netFlags) run(ctx context.Context, w wanted, stdout io.Writer) (err error) {
	var c *nicless.Context
	if w.picks != nil {
		if c, err = f.connect(ctx, w.cfg.Log); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, c.Close()) }()
		err = f.pick(ctx, c, &w)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
	}
	dev, err := tun.Open(w.tun)
	if errors.Is(err, syscall.EBUSY) {
		return hintf("a second interface needs another name, and addresses of another network: --name nicless1n --prefix 10.9.0.0/16",
			"net up: %w", err)
	}
	if err != nil {
		return err
	}
	if c == nil {
		if c, err = f.connect(ctx, w.cfg.Log); err != nil {
			return errors.Join(err, dev.Close())
		}
		defer func() { err = errors.Join(err, c.Close()) }()
	}
	in, err := netdev.Open(c, dev, w.cfg)
	if errors.Is(err, netdev.ErrTaken) {
		err = hintf("--addr with another address; without --addr, one is picked that nobody has", "net up: %w", err)
	}
	if err != nil {
		return errors.Join(err, dev.Close())
	}
	return f.serve(ctx, dev, in, w, stdout)
}

// serve runs the interface.
func (f *netFlags) serve(
	ctx context.Context, dev *tun.Device, in *netdev.Interface, w wanted, stdout io.Writer,
) error {
	if f.engine != "" {
		stop, err := reportInterface(f.engine, dev, in)
		if err != nil {
			w.cfg.Log.Info("nicless links will not show this interface", "why", err.Error())
		} else {
			defer stop()
		}
	}
	answering := serveNames(in, dev.Index(), w)
	defer answering.Close()
	watched, unwatch := context.WithCancel(ctx)
	var watching sync.WaitGroup
	watching.Go(func() {
		dev.Watch(watched, func(now []netip.Addr) { follow(in, answering, now, w) })
	})
	defer watching.Wait()
	defer unwatch()
	fmt.Fprintf(stdout, "net ready: %s%s %v mtu %d, offloads: %v\n", dev.Name(), domain(w.cfg.Host), w.tun.Addresses, w.tun.MTU, dev.Offloads())
	err := in.Run(ctx)
	if f.engine != "" && errors.Is(err, nicless.ErrDeviceGone) {
		return hintf("start it again, and then this command", "net up: the engine at %s is gone", f.engine)
	}
	return err
}

// apart returns an error if the slots would lie over a pool that this process opens. The pool would write on
// packets, and packets on the pool.
func apart(s netdev.SlotsConfig, opened links.Options) error {
	for _, p := range opened.Pools {
		before := p.Size != 0 && p.Offset+p.Size <= s.Offset
		after := s.Size != 0 && s.Offset+s.Size <= p.Offset
		if filepath.Clean(p.Path) == filepath.Clean(s.Path) && !before && !after {
			return usagef(fmt.Sprintf("for instance: --link pool:%s,node=%d,size=128M --slots %s,node=%d,offset=128M", p.Path, p.Node, s.Path, s.Node),
				"net up: --slots %s is also a part of pool %s", s.Path, p.Path)
		}
	}
	return nil
}

// connect returns a client of the engine.
func (f *netFlags) connect(ctx context.Context, log *slog.Logger) (*nicless.Context, error) {
	if f.engine == "" {
		addThreads()
		return nicless.Open(nicless.Config{Links: f.links, Log: log})
	}
	c, err := nicless.DialContext(ctx, f.engine)
	if err != nil {
		if !errors.Is(err, syscall.ENOENT) && !errors.Is(err, syscall.ECONNREFUSED) {
			return nil, err
		}
		return nil, hintf("start it first: nicless engine --socket "+f.engine, "%w", err)
	}
	return c, nil
}
