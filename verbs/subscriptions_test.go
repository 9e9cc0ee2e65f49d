//go:build linux && (amd64 || arm64)

package verbs

import (
	"errors"
	"fmt"
	"net/netip"
	"testing"

	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/verbs/internal/cm"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// A sourceClient notes the sources that the engine is given.
type sourceClient struct {
	nic.Client
	list []nic.Source
}

func (c *sourceClient) SetSources(list []nic.Source) error {
	c.list = list
	return c.Client.SetSources(list)
}

// noting makes a context note its sources.
func noting(x *uctx) *sourceClient {
	c := &sourceClient{Client: x.client}
	x.client = c
	return c
}

// A program takes datagrams of other hosts at the source address of an address handle that leads there, as
// long as it has one. A handle for an address of this engine makes no subscription.
func TestAddressHandlesAskForDatagrams(t *testing.T) {
	wires := &cable{}
	e := wires.server(t)
	r := e.s.rig(t)
	p := r.program()
	x := p.context()
	c := noting(x)
	own := x.gidAt(0)
	require.NotZero(t, own)
	p.ok(p.addressHandle(own))
	require.Empty(t, c.list, "it leads to this engine")
	group := netip.MustParseAddr("ff0e::77").As16()
	p.ok(p.addressHandle(group))
	require.Empty(t, c.list, "of a multicast group")
	var made []*object
	for i := range 2 {
		p.ok(p.addressHandle(pathAddress(i)))
		for _, o := range x.objects {
			if o.kind == kindAH && x.held[o] != nil && (len(made) == 0 || o != made[0]) {
				made = append(made, o)
			}
		}
	}
	require.Len(t, made, 2)
	require.Equal(t, []nic.Source{{GID: own, Network: true}}, c.list)
	require.NoError(t, x.remove(made[0]))
	require.Len(t, c.list, 1)
	require.NoError(t, x.remove(made[1]))
	require.Empty(t, c.list)
}

// A user who may not open links gets EPERM, and an explanation with the uid and the flag; the program takes
// no datagrams of other hosts.
func TestUserWhoMayNotOpenLinks(t *testing.T) {
	wires := &cable{}
	e := wires.server(t)
	e.denied = fmt.Errorf("%w; --link-users", nic.ErrDenied)
	p := e.s.rig(t).program()
	x := p.context()
	c := noting(x)
	objects, cost := len(x.objects), x.cost
	require.Equal(t, unix.EPERM, p.addressHandle(pathAddress(1)).errno)
	require.Len(t, x.objects, objects)
	require.Equal(t, cost, x.cost)
	require.Empty(t, c.list)
	e.denied = errors.New("no link leads there")
	p.ok(p.addressHandle(pathAddress(1)))
	require.Empty(t, c.list)

	port := &deniedPort{&smallPort{&cableEnd{cable: &cable{}}, make(map[string]int)}}
	s := newServingWith(t, Config{Fabric: port})
	y := s.rig(t).program().context()
	y.mu.Lock()
	defer y.mu.Unlock()
	err := y.connectElsewhere(&qp{object: &object{}}, peerAddress{port: 1, global: 1, gid: pathAddress(1)})
	require.Equal(t, unix.EPERM, refusalOf(err).errno)
	require.ErrorContains(t, err, "--link-users")
	require.Empty(t, s.paths.counts)
}

// A deniedPort has no path for this user.
type deniedPort struct{ *smallPort }

func (p *deniedPort) Path(RemotePort, uint8, uint8, nic.User) (nic.Path, func(), error) {
	return nic.Path{}, nil, fmt.Errorf("%w; --link-users", nic.ErrDenied)
}

// Addresses that rdma_cm holds count for the contexts of the process, also for those that are opened or
// adopted later, until they are released; also after the process has ended.
func TestListenersAskForDatagrams(t *testing.T) {
	wires := &cable{}
	e := wires.server(t)
	r := e.s.rig(t)
	r.tell("lo", "127.0.0.1/8", "eth0", "192.0.2.1/24")
	gid := netip.MustParseAddr("192.0.2.1").As16()
	w := &cmWire{s: e.s, fabric: e}
	program := r.p.cmProgram()
	ctx, _ := r.open(0)
	x := e.s.context(ctx)
	c := noting(x)
	h := w.Hold(cm.Address{}, cm.PortAddress{}, program)
	require.Contains(t, c.list, nic.Source{GID: gid, Network: true})
	require.True(t, h.Covers(gid))
	require.False(t, h.Covers(netip.MustParseAddr("192.0.2.9").As16()))
	one := w.Hold(cm.Address{PortAddress: cm.PortAddress{GID: gid}}, cm.PortAddress{}, program)
	require.Contains(t, c.list, nic.Source{GID: gid}, "of pools, too")

	other := e.s.rig(t)
	d := noting(e.s.context(other.program().ctx))
	require.Empty(t, d.list, "a bystander")
	other.p.subscriber.addContext(x) // it adopts the context
	require.Len(t, x.subscribers, 2)
	other.p.subscriber.end()
	require.Len(t, x.subscribers, 1)

	r.p.subscriber.end()
	require.Contains(t, c.list, nic.Source{GID: gid, Network: true}, "a child may have the listener")
	one.Release()
	h.Release()
	require.Empty(t, c.list)
	require.Empty(t, x.subscribers)
}
