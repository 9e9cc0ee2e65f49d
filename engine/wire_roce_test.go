package engine

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"github.com/nicless/nicless/engine/internal/transport"
	"github.com/nicless/nicless/fabric/auth"
	"github.com/nicless/nicless/fabric/roce"
	"github.com/nicless/nicless/internal/await"
	"github.com/nicless/nicless/internal/freeport"
	"github.com/nicless/nicless/internal/nic"
	"github.com/stretchr/testify/require"
)

// parties returns what two carriers need to authenticate each other: each accepts the other's key from
// anywhere.
func (r *rig) parties(items ...string) []*auth.Party {
	r.Helper()
	list := make([]*auth.Party, 2)
	var o [2]auth.Options
	var lines [2]string
	for i := range o {
		o[i].Key = filepath.Join(r.TempDir(), "key")
		for _, item := range items {
			_, err := o[i].Set(item)
			require.NoError(r, err)
		}
		id, err := auth.NewIdentity(o[i].Key)
		require.NoError(r, err)
		lines[i] = "127.0.0.0/8 " + id.Public().String()
	}
	for i := range o {
		require.NoError(r, os.WriteFile(o[i].Key+".peers", []byte(lines[1-i]), 0o600))
		var err error
		list[i], err = o[i].Open(nil)
		require.NoError(r, err)
	}
	return list
}

// newRoCE joins two new ports of the rig's engine by two carriers, over the loopback device. keys are the
// parties of both carriers, or none.
func (r *rig) newRoCE(cfg roce.Config, keys ...*auth.Party) *cable {
	r.Helper()
	c := &cable{}
	c.addrs = [2]netip.Addr(freeport.Loopback(r, 2))
	var ends [2]*roce.Carrier
	var ports [2]nic.PortConfig
	for i := range ends {
		cfg.Name = fmt.Sprint("roce ", i)
		if len(keys) == 2 {
			cfg.Auth = keys[i]
		}
		carrier, err := roce.New(cfg)
		require.NoError(r, err)
		ends[i], ports[i] = carrier, carrier.PortConfig()
		p, err := r.d.nic().AddPort(ports[i])
		require.NoError(r, err)
		c.ports[i] = p.(*transport.PortHandle)
		r.Cleanup(func() { require.NoError(r, carrier.Close()) })
		require.NoError(r, carrier.Start(p))
		require.NoError(r, carrier.AddAddress(c.addrs[i]))
	}
	for i, carrier := range ends {
		path, err := carrier.Hold(nic.Address{GID: c.addrs[1-i].As16(), From: c.addrs[i].As16()})
		require.NoError(r, err)
		c.paths[i] = path
	}
	c.ends = ends
	for _, carrier := range ends {
		if len(keys) == 2 {
			await.Until(r, "there is a session", func() bool { return carrier.Peers()[0].Up }, func() any { return carrier.Peers() })
		}
	}
	seen := uint64(0)
	c.await = func() (n int) {
		arrived := uint64(0)
		r.until("all packets have arrived", func() bool {
			sent := ports[0].Send.Sent() + ports[1].Send.Sent()
			arrived = ends[0].Stats().Received.Packets + ends[1].Stats().Received.Packets
			// The rings to the device may be full; then it takes packets first.
			if arrived == sent || ports[0].Receive.Ready() || ports[1].Receive.Ready() {
				return true
			}
			for i := range ports {
				ports[i].Wake()
			}
			return false
		}, func() any { return fmt.Sprintf("%+v, %+v", ends[0].Stats(), ends[1].Stats()) })
		n = int(arrived - seen)
		seen = arrived
		return n
	}
	r.cable = c
	return c
}

// The operations over RoCE: from one port of the engine to another by real sockets; without keys, and with
// packets that are authenticated or encrypted.
func TestOverRoCE(t *testing.T) {
	defer func() { overCable = nil }()
	for _, threads := range []int{1, 2} {
		overCable = func(r *rig) *cable { return r.newRoCE(roce.Config{Threads: threads, Spin: -1}) }
		for name, test := range overCarriers() {
			t.Run(fmt.Sprintf("%s, %d threads", name, threads), test)
		}
	}
	for _, items := range [][]string{nil, {"encrypt"}} {
		overCable = func(r *rig) *cable { return r.newRoCE(roce.Config{Threads: 1, Spin: -1}, r.parties(items...)...) }
		for name, test := range overCarriers() {
			t.Run(fmt.Sprintf("%s, with keys %v", name, items), test)
		}
	}
}
