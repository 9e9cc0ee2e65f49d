package verbs

import (
	"encoding/binary"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nicless/nicless/internal/await"
	"github.com/nicless/nicless/verbs/internal/mad"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// pingOUI is the organization of ibping's class.
const pingOUI = 0x001405

var ping = mad.Header{BaseVersion: 1, Class: mad.ClassPing, ClassVersion: 1, Method: mad.Get, TID: 5}

// pinged has the OUI at its place, behind the header.
func pinged(text string) []byte {
	b := make([]byte, 16, 16+len(text))
	b[13], b[14], b[15] = pingOUI>>16, pingOUI>>8&0xff, pingOUI&0xff
	return append(b, text...)
}

// pinger returns a program that may ping, and answers to pings if it is a server.
func (s *Server) pinger(t *testing.T, server bool) *madRig {
	m := s.rig(t).openMAD(0)
	var methods []uint8
	if server {
		methods = []uint8{mad.Get}
	}
	require.Zero(t, m.ioctl(mad.RegisterAgent, registration(1, mad.ClassPing, 1, 0, pingOUI, methods...)))
	return m
}

// A program pings a program of another engine.
func TestPingAcrossLink(t *testing.T) {
	wires := &cable{pool: true}
	a, b := wires.server(t).s, wires.server(t).s
	client, server := a.pinger(t, false), b.pinger(t, true)
	here, there := a.devices[0].lid, b.devices[0].lid

	require.Zero(t, client.write(mad.User{LID: there, Timeout: 60000}, ping, pinged("?")...))
	u, request := server.read()
	require.Equal(t, mad.User{LID: here, QPN: 1, Length: mad.UserSize + mad.Size}, u)
	h := mad.ParseHeader(request)
	require.Equal(t, uint32(5), uint32(h.TID))
	require.Equal(t, byte('?'), request[40])

	h.Method |= mad.Response
	require.Zero(t, server.write(mad.User{LID: here}, h, pinged("pong")...))
	u, answer := client.read()
	require.Equal(t, mad.User{LID: there, QPN: 1, Length: mad.UserSize + mad.Size}, u)
	require.Equal(t, "pong", string(answer[40:44]))

	// Nobody listens at the second device: its engine says so.
	require.Zero(t, client.write(mad.User{LID: b.devices[1].lid, Timeout: 60000}, ping, pinged("")...))
	_, answer = client.read()
	require.Equal(t, uint16(mad.StatusUnsupported), mad.ParseHeader(answer).Status)
	require.Empty(t, append(a.farNotes(), b.farNotes()...))
}

// Counters of a port of another engine are read there, and reset there for readers of datagrams.
func TestCountersAcrossLink(t *testing.T) {
	wires := &cable{pool: true}
	a, b := wires.server(t).s, wires.server(t).s
	b.mads.counters = func(d *device) map[string]uint64 { return map[string]uint64{"port_xmit_data": 1000 + uint64(d.index)} }
	m := a.rig(t).openMAD(0)
	require.Zero(t, m.ioctl(mad.RegisterAgent, registration(1, mad.ClassPM, 1, 0, 0)))
	ask := mad.Header{BaseVersion: 1, Class: mad.ClassPM, ClassVersion: 1, Method: mad.Get, Attribute: mad.AttrPortCountersExtended}
	port := append(make([]byte, mad.PMPortAt-mad.HeaderSize), 1, 0xff, 0xff)
	sent := func(method uint8) uint64 {
		ask.Method = method
		ask.TID++
		require.Zero(t, m.write(mad.User{LID: b.devices[1].lid, Timeout: 60000}, ask, port...))
		_, answer := m.read()
		require.Zero(t, mad.ParseHeader(answer).Status)
		return binary.BigEndian.Uint64(answer[64+8:])
	}
	require.Equal(t, []uint64{1001, 0, 0}, []uint64{sent(mad.Get), sent(mad.Set), sent(mad.Get)})
}

// The ports of other engines are in the subnet.
func TestSubnetOfLinkedEngines(t *testing.T) {
	wires := &cable{pool: true}
	a, b := wires.server(t).s, wires.server(t).s
	m := a.rig(t).openMAD(0)
	require.Zero(t, m.ioctl(mad.RegisterAgent, registration(0, mad.ClassSMP, 1, 0, 0)))
	require.Zero(t, m.ioctl(mad.RegisterAgent, registration(1, mad.ClassSA, 2, 1, 0)))
	far := b.devices[1]
	smp := func(attribute uint16) []byte {
		h := getNodeInfo(uint64(attribute))
		h.Attribute = attribute
		require.Zero(t, m.write(mad.User{LID: far.lid, Timeout: 60000}, h))
		_, answer := m.read()
		require.Zero(t, mad.ParseHeader(answer).Status)
		return answer[64:128]
	}
	require.Equal(t, mad.NodeInfo{Type: mad.NodeCA, Ports: 1, SystemGUID: far.guid, GUID: far.guid, PortGUID: far.guid,
		Partitions: mad.PKeyBlock, Device: partID, LocalPort: 1, Vendor: mellanoxOUI}.Bytes(), smp(mad.AttrNodeInfo)[:mad.NodeInfoSize])
	require.Equal(t, "node 1 device 1", strings.TrimRight(string(smp(mad.AttrNodeDescription)), "\x00"))
	i := smp(mad.AttrPortInfo)
	require.Equal(t, far.lid, binary.BigEndian.Uint16(i[16:]))
	require.Equal(t, byte(4), i[32]&0xf, "active")

	all := mad.Header{BaseVersion: 1, Class: mad.ClassSA, ClassVersion: 2, Method: mad.GetTable, Attribute: mad.AttrNodeRecord}
	require.Zero(t, m.write(mad.User{ID: 1, LID: subnetManagerLID, Timeout: 60000}, all))
	_, answer := m.read()
	require.Len(t, answer, mad.SADataAt+5*112, "a switch and four ports")
	all.Attribute, all.Method, all.TID = mad.AttrPathRecord, mad.Get, 2
	want := make([]byte, mad.SADataAt-mad.HeaderSize+64)
	binary.BigEndian.PutUint64(want[mad.ComponentsAt-mad.HeaderSize:], mad.PathHasTo)
	copy(want[mad.SADataAt-mad.HeaderSize+8:], far.local[:])
	require.Zero(t, m.write(mad.User{ID: 1, LID: subnetManagerLID, Timeout: 60000}, all, want...))
	_, answer = m.read()
	path := mad.ParsePath(answer[mad.SADataAt:])
	require.Equal(t, mad.Path{To: far.local, From: a.devices[0].local, ToLID: far.lid, FromLID: a.devices[0].lid}, path)

	// Both engines have the same switch: each port has the same number at it.
	numbers := func(s *Server) (list []uint16) {
		for _, p := range s.subnet().ports {
			list = append(list, p.lid())
		}
		return list
	}
	require.Equal(t, numbers(a), numbers(b))
}

// Of ports that say that they have the same LID or GID, the own one counts, and then the first.
func TestStatedPorts(t *testing.T) {
	s := newServingWith(t, Config{Links: []Link{InfiniBand}, NoDEVX: true})
	own := s.devices[0]
	net := s.subnet()
	port := func(lid uint16, gid byte) LinkedPort {
		return LinkedPort{RemotePort: RemotePort{LID: lid, GID: [gidSize]byte{0xfe, 0x80, 15: gid}}, Engine: 1, Name: "a\x1b[31m\xff" + strings.Repeat("b", 100)}
	}
	lid := chooseLIDs(s.engine.GUID(), 1, []uint16{own.lid, own.lid + 1})
	stolen := port(lid+9, 9)
	stolen.GID = own.local
	clone := port(own.lid, 0)
	clone.GID = own.local
	net.addFar([]LinkedPort{port(own.lid, 1), stolen, clone, port(0, 2), port(subnetManagerLID, 3), port(multicastLID, 4), port(lid, 5), port(lid, 6), port(lid+1, 5), port(lid+2, 7), port(lid+2, 7)})
	require.Len(t, net.ports, 4)
	require.Equal(t, 5, net.left, "the three that have an own LID or GID, and the second of each pair")
	for i, want := range []uint16{lid, lid + 2} {
		require.Equal(t, want, net.ports[2+i].lid())
		require.False(t, net.ports[2+i].up())
	}
	name := net.description(subnetNode{&net.ports[2], 1})
	require.Len(t, name, mad.SMPDataSize)
	require.NotContains(t, name, "\x1b")
}

// far returns a datagram that asks or answers, as it is in a packet.
func far(h mad.Header) []byte {
	b := make([]byte, mad.Size)
	h.Put(b)
	copy(b[mad.HeaderSize:], pinged(""))
	return b
}

// Datagrams that a peer forges are counted and change nothing.
func TestForgedMADs(t *testing.T) {
	wires := &cable{pool: true}
	a, b, c := wires.server(t).s, wires.server(t).s, wires.server(t).s
	client := a.pinger(t, false)
	server := a.pinger(t, true)
	nobody := b.pinger(t, true) // takes requests and does not answer
	own, asked, other := a.devices[0].local, b.devices[0].local, c.devices[0].local

	require.Zero(t, client.write(mad.User{LID: b.devices[0].lid, Timeout: 60000}, ping, pinged("")...))
	_, request := nobody.read()
	answer := mad.ParseHeader(request)
	answer.Method |= mad.Response
	with := func(f func(*mad.Header)) []byte { h := ping; f(&h); return far(h) }
	forged := func(f func(*mad.Header)) []byte { h := answer; f(&h); return far(h) }
	for _, row := range []struct {
		name     string
		from, to [gidSize]byte
		data     []byte
		count    *uint64
	}{
		{"of nobody", [gidSize]byte{1}, own, far(ping), &a.mads.far.strangers},
		{"of this engine", own, own, far(ping), &a.mads.far.strangers},
		{"to nobody", asked, [gidSize]byte{1}, far(ping), &a.mads.far.strangers},
		{"to a third engine", asked, other, far(ping), &a.mads.far.strangers},
		{"base version", asked, own, with(func(h *mad.Header) { h.BaseVersion = 2 }), &a.mads.far.malformed},
		{"class of the subnet", asked, own, with(func(h *mad.Header) { h.Class = mad.ClassSMP }), &a.mads.far.malformed},
		{"directed route", asked, own, with(func(h *mad.Header) { h.Class, h.Specific = mad.ClassDirected, 0x3fff }), &a.mads.far.malformed},
		{"subnet administration", asked, own, with(func(h *mad.Header) { h.Class = mad.ClassSA }), &a.mads.far.malformed},
		{"class 0", asked, own, with(func(h *mad.Header) { h.Class = 0 }), &a.mads.far.malformed},
		{"class 0xff", asked, own, with(func(h *mad.Header) { h.Class = 0xff }), &a.mads.far.malformed},
		{"answer of another engine", other, own, far(answer), &a.mads.far.unasked},
		{"answer of another class", asked, own, forged(func(h *mad.Header) { h.Class = 0x33 }), &a.mads.far.unasked},
		{"answer to another request", asked, own, forged(func(h *mad.Header) { h.TID++ }), &a.mads.far.unasked},
		{"answer to another agent", asked, own, forged(func(h *mad.Header) { h.TID += 1 << 32 }), &a.mads.far.unasked},
		{"answer to the other device", asked, a.devices[1].local, far(answer), &a.mads.far.unasked},
	} {
		before := *row.count
		a.receiveMAD(row.from, row.to, row.data)
		require.Equal(t, before+1, *row.count, row.name)
	}
	for _, m := range []*madRig{client, server} {
		errno, _ := m.call(opMADRead, 1000, 0, nil)
		require.Equal(t, eAGAIN, errno, "nothing has come of it")
	}
	a.receiveMAD(asked, own, far(answer))
	_, _ = client.read()
	a.receiveMAD(asked, own, far(answer))
	require.Equal(t, uint64(6), a.mads.far.unasked, "an answer counts once")
	require.Len(t, a.farNotes(), 3)
}

// A peer that floods gets no more than its share, and others are served.
func TestFloodOfMADs(t *testing.T) {
	wires := &cable{pool: true}
	a, b, c := wires.server(t).s, wires.server(t).s, wires.server(t).s
	server := a.pinger(t, true)
	for range 2 * madQueue {
		a.receiveMAD(b.devices[0].local, a.devices[0].local, far(ping))
	}
	require.Equal(t, uint64(madQueue), a.mads.far.unread)
	require.Len(t, server.s.madFileOfDevice(0).queue, madQueue)

	f := farMADs{}
	now := time.Now()
	for range farPerSecond {
		require.True(t, f.spend(1, now))
	}
	require.False(t, f.spend(1, now))
	require.True(t, f.spend(2, now), "another engine")
	require.True(t, f.spend(1, now.Add(time.Second)))
	a.mads.far.began, a.mads.far.spent = time.Now().Add(time.Hour), map[uint64]int{b.engine.GUID(): farPerSecond}
	a.receiveMAD(b.devices[0].local, a.devices[0].local, far(ping))
	require.Equal(t, uint64(1), a.mads.far.overBudget)

	// Programs of this engine and of others are served.
	m := a.rig(t).openMAD(1)
	require.Zero(t, m.ioctl(mad.RegisterAgent, registration(1, mad.ClassPing, 1, 0, pingOUI, mad.Get)))
	other := c.pinger(t, false)
	require.Zero(t, other.write(mad.User{LID: a.devices[1].lid, Timeout: 60000}, ping, pinged("")...))
	_, _ = m.read()
	_, _ = server.read()
}

// A request to an engine that does not answer, or to which no link leads any more, times out.
func TestMADsLostOnLink(t *testing.T) {
	wires := &cable{pool: true}
	ends := []*cableEnd{wires.server(t), wires.server(t)}
	a, b := ends[0].s, ends[1].s
	client := a.pinger(t, false)
	_ = b.pinger(t, true)
	to := b.devices[0].lid
	require.Zero(t, client.write(mad.User{LID: to, Timeout: 1}, ping, pinged("")...))
	u, _ := client.read()
	require.Equal(t, uint32(unix.ETIMEDOUT), u.Status)

	a.sendMAD(RemotePort{GID: [gidSize]byte{1}}, make([]byte, mad.Size))
	require.Len(t, a.farNotes(), 1)
	ends[1].SetAddresses(nil)
	require.Nil(t, a.subnet().withLID(to))
	require.Zero(t, client.write(mad.User{LID: to, Timeout: 1}, ping, pinged("")...))
	u, _ = client.read()
	require.Equal(t, uint32(unix.ETIMEDOUT), u.Status)
	await.Until(t, "nothing waits", func() bool {
		a.mads.mu.Lock()
		defer a.mads.mu.Unlock()
		return len(a.madFileOfDevice(0).sends) == 0
	})
}

// Datagrams of strangers, of an engine and of all engines are bounded, and each engine has some of its own,
// whatever others have sent. In the next second all can send again.
func TestBudgetsOfMADs(t *testing.T) {
	now := time.Now()
	var f farMADs
	taken := func(engine uint64) (n int) {
		for f.spend(engine, now) {
			n++
		}
		return n
	}
	require.Equal(t, lostPerSecond, taken(0))
	require.Equal(t, farPerSecond, taken(1))
	require.Equal(t, allPerSecond-farPerSecond+2*ownPerSecond, taken(2))
	require.Equal(t, ownPerSecond, taken(3))
	now = now.Add(time.Second)
	require.Equal(t, farPerSecond, taken(2))
}

// Whatever a peer sends, nothing of it is taken for an answer, and pings are answered.
func FuzzFarMAD(f *testing.F) {
	for _, class := range []byte{0, mad.ClassSMP, mad.ClassSA, mad.ClassPM, mad.ClassCM, mad.ClassPing, mad.ClassDirected} {
		for _, method := range []byte{mad.Get, mad.Set, mad.Send, mad.TrapRepress, mad.GetTable, mad.GetResp} {
			f.Add(far(mad.Header{BaseVersion: 1, Class: class, ClassVersion: 1, Method: method, Attribute: mad.AttrPortCounters}))
		}
	}
	wires := &cable{pool: true}
	a, b := wires.server(f).s, wires.server(f).s
	a.log = slog.New(slog.DiscardHandler)
	own, peer := a.devices[0].local, b.devices[0].local
	f.Fuzz(func(t *testing.T, data []byte) {
		await.Until(t, "the files before have ended", func() bool {
			a.mads.mu.Lock()
			defer a.mads.mu.Unlock()
			return len(a.mads.files) == 0
		})
		client, server := a.pinger(t, false), a.pinger(t, true)
		defer client.fd.Close()
		defer server.fd.Close()
		require.Zero(t, client.write(mad.User{LID: b.devices[1].lid, Timeout: 60000}, ping, pinged("")...))
		_, _ = client.read() // nobody listens there
		a.receiveMAD(peer, own, append(slices.Clip(data[:min(len(data), mad.Size)]), make([]byte, mad.Size)...)[:mad.Size])
		errno, _ := client.call(opMADRead, 1000, 0, nil)
		require.Equal(t, eAGAIN, errno)
		errno, _ = server.call(opMADRead, 1000, 0, nil)
		require.Contains(t, []unix.Errno{0, eAGAIN}, errno)
		a.receiveMAD(peer, own, far(ping))
		errno, _ = server.call(opMADRead, 1000, 0, nil)
		require.Zero(t, errno)
	})
}

// madFileOfDevice returns an open file of a device.
func (s *Server) madFileOfDevice(index uint32) *madFile {
	for _, f := range s.mads.files {
		if f.device.index == index {
			return f
		}
	}
	return nil
}
