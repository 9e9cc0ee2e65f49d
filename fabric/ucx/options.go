//go:build linux && (amd64 || arm64)

package ucx

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/nicless/nicless/fabric/auth"
	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/internal/packetring"
)

// A Config says what a carrier connects to. Listen or Connect must be set; zero values of all
// other fields are good defaults.
type Config struct {
	Listen  string   // ADDRESS:PORT at which peers may connect; "": nowhere
	Connect []string // HOST:PORT of peers, at most 32

	Peers []netip.Prefix // addresses from which peers may connect; nil: all
	Auth  auth.Options   // keys; the zero value means none: peers are not authenticated

	MTU   int           // most bytes of payload in a packet; 0 means 32 KiB. Two peers use the smaller one
	Slots int           // packets in a ring, a power of two; 0 means 1024
	Data  int           // bytes for long payloads in a ring; 0 means 4 MiB
	Dead  time.Duration // after so long a silence a peer is dead; 0 means 1 s, 100 ms are the least
	Spin  time.Duration // how long the process polls before it sleeps; 0 means 200 µs, below 0 no time

	Library string   // libucp; "" means libucp.so.0 where the system finds it
	Program string   // nicless-ucx; "" means where findProgram finds it
	Env     []string // further environment of the process, such as UCX_TLS=tcp,self

	Name      string    // of this engine, for the peers' logs: at most 64 bytes
	Addresses []Address // of this engine's ports

	// Management is given packets for QP 1; see nic.PortConfig. It can be nil.
	Management func(from nic.Path, packet []byte)

	// Log gets a line when the process and peers come and go. It can be nil.
	Log *slog.Logger
}

// An Address is what other engines call a port of this engine.
type Address struct {
	GID [16]byte // 0: none
	LID uint16   // 0: none
}

const (
	defaultMTU   = 32 << 10
	minMTU       = 256
	headroom     = 40 // a datagram's GRH, beside the payload
	maxMTU       = (packetring.MaxPayload - headroom) &^ 3
	defaultSlots = 1024
	defaultData  = 4 << 20
	defaultDead  = time.Second
	leastDead    = 100 * time.Millisecond
	mostDead     = time.Hour
	defaultSpin  = 200 * time.Microsecond
	maxTargets   = 32
)

// Parse reads what follows "ucx:" in a --link option: items with commas between them.
//
//	HOST:PORT            connect to this peer; may be given several times
//	listen=ADDRESS:PORT  let peers connect
//
// One of these is needed. Engines meet at this port, and all TCP connections of UCX begin there: a firewall
// must let it through, and no other. These options say who may be a peer:
//
//	peer=PREFIX          only these addresses may connect; may be given several times
//	key=FILE             this engine's private key: peers are authenticated, and what they send is
//	peers=FILE           the file of accepted keys (default: the name of the key file and ".peers")
//	trust=first          accept and pin a key that is seen first from an address that no line covers
//	auth=required        refuse engines without keys (the default with key=)
//	auth=offered         accept engines without keys from addresses that no line covers
//	encrypt              encrypt what is sent, too, also written encrypt=yes; both ends must say it
//
// Without key= every engine that may connect is believed; see docs/SECURITY.md. These are the other options,
// with their defaults:
//
//	mtu=32768            most bytes of payload in a packet; two peers use the smaller one
//	slots=1024           packets in a ring, a power of two
//	data=4194304         bytes for long payloads in a ring
//	dead=1s              after so long a silence a peer is dead; 100ms are the least
//	spin=200us           how long the process looks for work before it sleeps; below 0 no time
//	library=libucp.so.0  libucp, by its path or where the system finds it
//	tls=all              UCX_TLS, with + in place of commas: tls=tcp+self
//	devices=all          UCX_NET_DEVICES, with + in place of commas
//
// The defaults of tls and devices are those of the engine's environment, if it sets these variables.
func Parse(s string) (Config, error) {
	var cfg Config
	for _, item := range strings.Split(s, ",") {
		name, value, isOption := strings.Cut(item, "=")
		mine, err := cfg.Auth.Set(item)
		switch {
		case item == "" || mine:
		case !isOption:
			cfg.Connect = append(cfg.Connect, item)
		default:
			err = cfg.option(name, value)
		}
		if err != nil {
			return cfg, fmt.Errorf("ucx: option %q: %w", item, err)
		}
	}
	return cfg, cfg.check()
}

// option sets the option of this name.
func (c *Config) option(name, value string) (err error) {
	switch name {
	case "listen":
		c.Listen = value
	case "peer":
		p, err := parsePrefix(value)
		if err != nil {
			return err
		}
		c.Peers = append(c.Peers, p)
	case "mtu":
		c.MTU, err = strconv.Atoi(value)
	case "slots":
		c.Slots, err = strconv.Atoi(value)
	case "data":
		c.Data, err = strconv.Atoi(value)
	case "dead":
		c.Dead, err = time.ParseDuration(value)
	case "spin":
		c.Spin, err = time.ParseDuration(value)
	case "library":
		c.Library = value
	case "tls":
		c.Env = append(c.Env, "UCX_TLS="+strings.ReplaceAll(value, "+", ","))
	case "devices":
		c.Env = append(c.Env, "UCX_NET_DEVICES="+strings.ReplaceAll(value, "+", ","))
	default:
		return errors.New("listen and peer, mtu, slots, data, dead, spin, library, tls and devices are options; for keys key= peers= trust= auth= and encrypt are")
	}
	return err
}

// check returns an error if a field has an impossible value.
func (c *Config) check() error {
	if c.Listen == "" && len(c.Connect) == 0 {
		return fmt.Errorf("ucx: no peer and no address to listen at: ucx:HOST:PORT or ucx:listen=ADDRESS:PORT")
	}
	if c.Listen != "" {
		if _, err := net.ResolveTCPAddr("tcp", c.Listen); err != nil {
			return fmt.Errorf("ucx: listen=%s: %w", c.Listen, err)
		}
	}
	for _, peer := range c.Connect {
		host, port, err := net.SplitHostPort(peer)
		if err != nil || host == "" || port == "" {
			return fmt.Errorf("ucx: %q is no peer; HOST:PORT is needed", peer)
		}
		if n, err := net.LookupPort("tcp", port); err != nil || n == 0 { // it may be the name of a service
			return fmt.Errorf("ucx: %q: port %s; 1 to 65535 are possible", peer, port)
		}
	}
	if err := c.Auth.Check(); err != nil {
		return fmt.Errorf("ucx: %w", err)
	}
	switch {
	case len(c.Connect) > maxTargets:
		return fmt.Errorf("ucx: %d peers to connect to; at most %d are possible", len(c.Connect), maxTargets)
	case c.MTU != 0 && (c.MTU < minMTU || c.MTU > maxMTU || c.MTU%4 != 0):
		return fmt.Errorf("ucx: mtu=%d; a multiple of 4 from %d to %d is possible", c.MTU, minMTU, maxMTU)
	case c.Dead != 0 && (c.Dead < leastDead || c.Dead > mostDead):
		return fmt.Errorf("ucx: dead=%v; %v to %v are possible", c.Dead, leastDead, mostDead)
	case len(c.Name) > nameSize:
		return fmt.Errorf("ucx: a name of %d bytes; at most %d are possible", len(c.Name), nameSize)
	case len(c.Addresses) > MaxAddresses:
		return fmt.Errorf("ucx: %d addresses; at most %d are possible", len(c.Addresses), MaxAddresses)
	}
	d := c.withDefaults()
	if err := d.geometry().Check(); err != nil {
		return fmt.Errorf("ucx: %w", err)
	}
	if d.Data < 2*(d.MTU+headroom) {
		return fmt.Errorf("ucx: data=%d does not hold two packets of %d bytes", d.Data, d.MTU)
	}
	return nil
}

// parsePrefix reads an address or a prefix.
func parsePrefix(s string) (netip.Prefix, error) {
	if a, err := netip.ParseAddr(s); err == nil && a.Zone() == "" {
		return netip.PrefixFrom(a.Unmap(), a.Unmap().BitLen()), nil
	}
	p, err := netip.ParsePrefix(s)
	if err != nil || p != p.Masked() || p.Addr().Is4In6() {
		return p, fmt.Errorf("%q; an address, or a prefix such as 10.0.0.0/8, is needed", s)
	}
	return p, nil
}

// withDefaults returns the configuration with all zero values replaced.
func (c Config) withDefaults() Config {
	set := func(to *int, v int) {
		if *to == 0 {
			*to = v
		}
	}
	set(&c.MTU, defaultMTU)
	set(&c.Slots, defaultSlots)
	set(&c.Data, defaultData)
	if c.Dead == 0 {
		c.Dead = defaultDead
	}
	if c.Spin == 0 {
		c.Spin = defaultSpin
	}
	c.Spin = max(c.Spin, 0)
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c
}

// geometry returns the size of each ring.
func (c *Config) geometry() packetring.Geometry {
	return packetring.Geometry{Slots: c.Slots, Data: c.Data}
}
