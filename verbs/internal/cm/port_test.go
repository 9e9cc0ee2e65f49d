//go:build linux && (amd64 || arm64)

package cm

import (
	"net/netip"
	"testing"

	"github.com/nicless/nicless/verbs/internal/abi"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func (f *file) option(handle, level, name uint32, value uint32, length uint32) unix.Errno {
	f.Helper()
	req := make([]byte, abi.CMSetOptionSize)
	le.PutUint64(req[abi.CMSetOptionOptval:], uint64(value))
	le.PutUint32(req[abi.CMSetOptionID:], handle)
	le.PutUint32(req[abi.CMSetOptionLevel:], level)
	le.PutUint32(req[abi.CMSetOptionOptname:], name)
	le.PutUint32(req[abi.CMSetOptionOptlen:], length)
	errno, _ := f.call(abi.CMCmdSetOption, 0, req)
	return errno
}

// Programs share a port or not as in the kernel (cma_check_port).
func TestPorts(t *testing.T) {
	r := newRig(t)
	h := r.host("10.0.0.1")
	f, other := h.open(), r.host("10.0.0.2").open()
	bind := func(f *file, a sockaddr) unix.Errno { return f.bind(f.create(abi.CMPSTCP, 1), a) }

	require.Zero(t, bind(f, inet("10.0.0.1", 5000)))
	require.Equal(t, unix.EADDRINUSE, bind(f, inet("10.0.0.1", 5000)))
	require.Equal(t, unix.EADDRNOTAVAIL, bind(f, inet("0.0.0.0", 5000)))
	require.Zero(t, bind(f, inet("127.0.0.1", 5000)))
	require.Zero(t, bind(other, inet("10.0.0.2", 5000)), "another namespace")
	require.Zero(t, f.bind(f.create(abi.CMPSUDP, 1), inet("10.0.0.1", 5000)), "another port space")
	require.Equal(t, unix.EADDRNOTAVAIL, bind(f, inet("10.0.0.2", 5001)), "an address of another host")
	require.Equal(t, unix.EACCES, bind(f, inet("10.0.0.1", 80)))
	require.Equal(t, unix.EINVAL, bind(f, inet("fe80::1", 5002)), "a link-local address without an interface")

	// IPv4 and IPv6 share a port only if the latter is for its own family alone.
	require.Zero(t, bind(f, inet("0.0.0.0", 5003)))
	six := f.create(abi.CMPSTCP, 1)
	require.Equal(t, unix.EADDRNOTAVAIL, f.bind(six, inet("::", 5003)))
	require.Zero(t, f.option(six, abi.CMOptionLevelID, abi.CMOptionAFOnly, 1, 4))
	require.Zero(t, f.bind(six, inet("::", 5003)))

	// REUSEADDR counts if both have it and neither listens.
	a, b := f.create(abi.CMPSTCP, 1), f.create(abi.CMPSTCP, 2)
	require.Zero(t, f.option(a, abi.CMOptionLevelID, abi.CMOptionReuseAddr, 1, 4))
	require.Zero(t, f.bind(a, inet("10.0.0.1", 5004)))
	require.Equal(t, unix.EADDRINUSE, f.bind(b, inet("10.0.0.1", 5004)))
	require.Zero(t, f.option(b, abi.CMOptionLevelID, abi.CMOptionReuseAddr, 1, 4))
	require.Zero(t, f.bind(b, inet("10.0.0.1", 5004)))
	require.Equal(t, unix.EADDRINUSE, f.listen(a, 0))
	f.destroy(b)
	require.Zero(t, f.listen(a, 0))
	require.Equal(t, unix.EINVAL, f.option(a, abi.CMOptionLevelID, abi.CMOptionReuseAddr, 1, 4))

	// Port 0 takes a free one; LISTEN of a new id does too.
	any := f.create(abi.CMPSTCP, 1)
	require.Zero(t, f.bind(any, inet("0.0.0.0", 0)))
	require.GreaterOrEqual(t, f.source(any).port, uint16(firstPort))
	fresh := f.create(abi.CMPSTCP, 1)
	require.Zero(t, f.listen(fresh, 0))
	require.NotEqual(t, f.source(any).port, f.source(fresh).port)

	// A program that has ended leaves its ports at once.
	dead := h.open()
	require.Zero(t, bind(dead, inet("10.0.0.1", 5005)))
	require.Equal(t, unix.EADDRINUSE, bind(f, inet("10.0.0.1", 5005)))
	dead.gone = true
	require.Zero(t, bind(f, inet("10.0.0.1", 5005)))

	f.close()
	other.close()
	r.ends()
}

// The rules about ports do not depend on how ids are filed. The rule of the kernel for two ids is
// written out here; all pairs of ids are tried.
func TestPortRules(t *testing.T) {
	r := newRig(t)
	f := r.host("10.0.0.1").open()
	type kind struct {
		addr        string
		reuse, only bool
		listens     bool
	}
	var kinds []kind
	for _, addr := range []string{"10.0.0.1", "127.0.0.1", "0.0.0.0", "::1", "::"} {
		for n := range 8 {
			kinds = append(kinds, kind{addr, n&1 != 0, n&2 != 0, n&4 != 0})
		}
	}
	flag := map[bool]uint32{true: 1}
	make := func(k kind) (uint32, unix.Errno) {
		h := f.create(abi.CMPSTCP, 1)
		require.Zero(t, f.option(h, abi.CMOptionLevelID, abi.CMOptionReuseAddr, flag[k.reuse], 4))
		require.Zero(t, f.option(h, abi.CMOptionLevelID, abi.CMOptionAFOnly, flag[k.only], 4))
		return h, f.bind(h, inet(k.addr, 5000))
	}
	for _, a := range kinds {
		for _, b := range kinds {
			first, errno := make(a)
			require.Zero(t, errno)
			if a.listens {
				require.Zero(t, f.listen(first, 0))
			}
			second, errno := make(b)
			x, y := inet(a.addr, 0), inet(b.addr, 0)
			want := unix.Errno(0)
			switch {
			case a.reuse && b.reuse && !a.listens:
			case a.only && b.only && x.family != y.family:
			case x.any() || y.any():
				want = unix.EADDRNOTAVAIL
			case x.addr == y.addr:
				want = unix.EADDRINUSE
			}
			require.Equal(t, want, errno, "%+v, then %+v", a, b)
			f.destroy(first)
			f.destroy(second)
		}
	}
	f.close()
	r.ends()
}

// However many ids have a port, a command does not look at all of them.
func TestManyIDsOnAPort(t *testing.T) {
	r := newRig(t)
	client, many, server := r.host("10.0.0.1").open(), r.host("10.0.0.2").open(), r.hosts[netip.MustParseAddr("10.0.0.2")].open()
	var last uint32
	for n := range 300 {
		last = many.create(abi.CMPSTCP, 1)
		require.Zero(t, many.option(last, abi.CMOptionLevelID, abi.CMOptionReuseAddr, 1, 4))
		require.Zero(t, many.bind(last, inet("10.0.0.2", 7000)))
		if n%2 == 0 {
			many.ok(abi.CMCmdResolveAddr, 0, resolveRequest(last, sockaddr{}, inet("10.0.0.1", 1)))
			many.expect(addrResolved, 1, 0)
		}
	}
	require.Zero(t, many.asked)
	require.Equal(t, unix.EADDRINUSE, many.listen(last, 0))
	require.Equal(t, unix.EADDRINUSE, server.bind(server.create(abi.CMPSTCP, 2), inet("10.0.0.2", 7000)))
	require.Equal(t, unix.EADDRNOTAVAIL, server.bind(server.create(abi.CMPSTCP, 2), inet("0.0.0.0", 7000)))
	require.LessOrEqual(t, many.asked, 2)
	l := server.create(abi.CMPSTCP, 100)
	require.Zero(t, server.bind(l, inet("127.0.0.1", 7000)))
	require.Zero(t, server.listen(l, 0))
	asked := many.asked
	require.Zero(t, client.connect(client.resolved(abi.CMPSTCP, 1, inet("10.0.0.2", 7000)), ""))
	require.LessOrEqual(t, many.asked, asked+1, "one of them is bound, so the request waits")
	many.gone = true
	h := server.create(abi.CMPSTCP, 101)
	require.Zero(t, server.bind(h, inet("10.0.0.2", 7000)), "all of them have gone")
	require.Zero(t, server.listen(h, 0))
	server.expect(connectRequest, 101, 0)
	client.close()
	server.close()
	r.ends()
}

// source returns the source address of an id (QUERY).
func (f *file) source(handle uint32) sockaddr {
	f.Helper()
	req := make([]byte, abi.CMQuerySize)
	le.PutUint32(req[abi.CMQueryID:], handle)
	b := f.ok(abi.CMCmdQuery, abi.CMQueryAddrRespSize, req)
	return parseSockaddr(b[abi.CMQueryAddrRespSrcAddr:])
}

// The addresses of AF_IB are GIDs, and ports are parts of service numbers.
func TestGIDs(t *testing.T) {
	r := newRig(t)
	client, server := r.host("10.0.0.1").open(), r.host("10.0.0.2").open()
	gid := func(ip netip.Addr, sid, mask uint64) sockaddr {
		return sockaddr{family: afIB, addr: netip.AddrFrom16(ip.As16()), sid: sid, mask: mask}
	}
	// Queries of librdmacm at its first use.
	probe := server.create(abi.CMPSIB, 1)
	require.Zero(t, server.bind(probe, gid(netip.IPv6Unspecified(), 0x01060000, spaceMask)))
	server.destroy(probe)

	l := server.create(abi.CMPSIB, 100)
	require.Zero(t, server.bind(l, gid(server.ip, serviceOfIB|7471, ^uint64(0))))
	require.Zero(t, server.listen(l, 0))
	a := client.resolved(abi.CMPSIB, 1, gid(server.ip, serviceOfIB|7471, ^uint64(0)))
	require.Zero(t, client.connect(a, "hello"))
	e := server.expect(connectRequest, 100, 0)
	require.Equal(t, byte(reqData), e[abi.CMEventRespParam:][abi.CMConnParamPrivateDataLen])
	require.Equal(t, gidOf(client.ip), GID(server.destination(idOf(e)).addr.As16()))
	require.Zero(t, server.accept(idOf(e), 2, params(1, "")))
	client.expect(connectResponse, 1, 0)
	require.Equal(t, unix.EPROTONOSUPPORT, server.bind(server.create(abi.CMPSIPOIB, 1), gid(server.ip, 1<<16|5, ^uint64(0))))
	client.close()
	server.close()
	r.ends()
}

func (f *file) destination(handle uint32) sockaddr {
	f.Helper()
	req := make([]byte, abi.CMQuerySize)
	le.PutUint32(req[abi.CMQueryID:], handle)
	b := f.ok(abi.CMCmdQuery, abi.CMQueryAddrRespSize, req)
	return parseSockaddr(b[abi.CMQueryAddrRespDstAddr:])
}

// A host reaches itself by its loopback addresses, and by none in particular.
func TestLoopback(t *testing.T) {
	r := newRig(t)
	f := r.host("10.0.0.1").open()
	l := f.create(abi.CMPSTCP, 100)
	require.Zero(t, f.option(l, abi.CMOptionLevelID, abi.CMOptionAFOnly, 0, 4))
	require.Zero(t, f.bind(l, inet("::", 7000)))
	require.Zero(t, f.listen(l, 0))
	for n, to := range []string{"127.0.0.1", "127.0.0.2", "::1", "10.0.0.1", "0.0.0.0"} {
		h := f.resolved(abi.CMPSTCP, uint64(n+1), inet(to, 7000))
		require.Zero(t, f.connect(h, ""))
		e := f.expect(connectRequest, 100, 0)
		require.Equal(t, f.source(idOf(e)).addr, f.destination(h).addr)
		require.Equal(t, f.source(h).port, f.destination(idOf(e)).port)
	}
	f.close()
	r.ends()
}

// Events of groups are for the membership, and vanish with it.
func TestGroups(t *testing.T) {
	r := newRig(t)
	f := r.host("10.0.0.1").open()
	join := func(handle uint32, group string, flags uint16) (unix.Errno, []byte) {
		req, a := make([]byte, abi.CMJoinMcastSize), inet(group, 0)
		le.PutUint64(req[abi.CMJoinMcastUID:], 77)
		le.PutUint32(req[abi.CMJoinMcastID:], handle)
		le.PutUint16(req[abi.CMJoinMcastAddrSize:], uint16(a.size()))
		le.PutUint16(req[abi.CMJoinMcastJoinFlags:], flags)
		a.put(req[abi.CMJoinMcastAddr:])
		return f.call(abi.CMCmdJoinMcast, 4, req)
	}
	leave := func(group uint32) (unix.Errno, []byte) {
		req := make([]byte, abi.CMDestroyIDSize)
		le.PutUint32(req[abi.CMDestroyIDID:], group)
		return f.call(abi.CMCmdLeaveMcast, 4, req)
	}
	h := f.create(abi.CMPSUDP, 1)
	errno, _ := join(h, "239.1.1.1", 0)
	require.Equal(t, unix.EINVAL, errno, "not bound")
	require.Zero(t, f.bind(h, inet("10.0.0.1", 0)))
	errno, _ = join(h, "10.0.0.1", 0)
	require.Equal(t, unix.EINVAL, errno, "no group")
	errno, _ = join(h, "239.1.1.1", abi.CMJoinFlagReserved)
	require.Equal(t, unix.EINVAL, errno)
	errno, b := join(h, "239.1.1.1", 0)
	require.Zero(t, errno)
	first := le.Uint32(b)
	e := f.expect(multicastJoin, 77, 0)
	require.Equal(t, first, idOf(e))
	p := e[abi.CMEventRespParam:]
	require.Equal(t, uint32(multicastQPN), le.Uint32(p[abi.CMUDParamQPNum:]))
	require.Equal(t, gidOf(netip.MustParseAddr("239.1.1.1")), GID(p[abi.CMUDParamAHAttr:][:16]))
	_, b = join(h, "ff0e::1", 1)
	second := le.Uint32(b)
	require.Equal(t, 1, f.tokens)
	errno, b = leave(second)
	require.Zero(t, errno)
	require.Zero(t, le.Uint32(b))
	f.quiet()
	errno, b = leave(first)
	require.Zero(t, errno)
	require.Equal(t, uint32(1), le.Uint32(b))
	errno, _ = leave(first)
	require.Equal(t, unix.ENOENT, errno)
	require.Equal(t, uint32(1), f.destroy(h))
	f.close()
	r.ends()
}

// An id moves to another channel with the events that were not read.
func TestMigration(t *testing.T) {
	r := newRig(t)
	client, server, l := r.pair()
	a := client.resolved(abi.CMPSTCP, 1, inet("10.0.0.2", 7000))
	require.Zero(t, client.connect(a, ""))
	to := server.host.open()
	migrate := func(handle uint32, from *file) (unix.Errno, []byte) {
		req := make([]byte, abi.CMMigrateIDSize)
		le.PutUint32(req[abi.CMMigrateIDID:], handle)
		c := &Call{Program: to.program, Channel: to.ch, Written: append(hdr(abi.CMCmdMigrateID, len(req), 4), req...)}
		require.ErrorIs(t, r.m.Serve(c), ErrAgain)
		c.Results = []Result{{Kind: NeedChannel}}
		if from != nil {
			c.Results[0].Channel = from.ch
		}
		if err := r.m.Serve(c); err != nil {
			return err.(*Refusal).Errno, nil
		}
		return 0, c.Stores[0].Bytes
	}
	errno, _ := migrate(l, nil)
	require.Equal(t, unix.EINVAL, errno)
	errno, _ = migrate(999, server)
	require.Equal(t, unix.ENOENT, errno)
	errno, _ = migrate(l, client)
	require.Equal(t, unix.EINVAL, errno, "the id is not of that channel")
	errno, b := migrate(l, server)
	require.Zero(t, errno)
	require.Zero(t, le.Uint32(b))
	require.Zero(t, server.tokens)
	require.Equal(t, 1, to.tokens)
	server.quiet()
	passive := idOf(to.expect(connectRequest, 100, 0))
	errno, _ = migrate(passive, to)
	require.Zero(t, errno)
	require.Equal(t, unix.EINVAL, server.accept(passive, 2, params(1, "")), "of another channel")
	require.Zero(t, to.accept(passive, 2, params(1, "")))
	server.close()
	client.expect(connectResponse, 1, 0)
	to.close()
	client.expect(rejected, 1, int32(rejConsumer))
	client.close()
	r.ends()
}
