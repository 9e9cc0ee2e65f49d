//go:build linux && (amd64 || arm64)

package cm

import (
	"strings"
	"testing"
	"time"

	"github.com/nicless/nicless/verbs/internal/abi"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// connected returns both ends of a connection.
func connectedPair(t *testing.T) (r *rig, client, server *file, active, passive uint32) {
	r = newRig(t)
	client, server, _ = r.pair()
	active = client.resolved(abi.CMPSTCP, 1, inet("10.0.0.2", 7000))
	require.Zero(t, client.connect(active, "hello"))
	passive = idOf(server.expect(connectRequest, 100, 0))
	require.Zero(t, server.accept(passive, 2, params(0x222, "welcome")))
	client.expect(connectResponse, 1, 0)
	require.Zero(t, client.accept(active, 0, none))
	server.expect(established, 2, 0)
	return r, client, server, active, passive
}

// A connection is made and ended, and each side gets the data of the other one.
func TestConnection(t *testing.T) {
	r := newRig(t)
	client, server, listener := r.pair()
	active := client.resolved(abi.CMPSTCP, 1, inet("10.0.0.2", 7000))
	require.Zero(t, client.connect(active, "hello"))
	client.quiet()

	e := server.expect(connectRequest, 100, 0)
	passive := idOf(e)
	require.NotEqual(t, listener, passive)
	p := e[abi.CMEventRespParam:]
	require.Equal(t, uint32(0x111), le.Uint32(p[abi.CMConnParamQPNum:]))
	require.Equal(t, byte(reqData-ipHeader), p[abi.CMConnParamPrivateDataLen], "the size of the field")
	require.Equal(t, "hello\x00", string(p[abi.CMConnParamPrivateData:][:6]))
	require.Equal(t, []byte{5, 3}, p[abi.CMConnParamResponderResources:][:2], "swapped")
	require.Equal(t, uint32(0x15b3), le.Uint32(e[abi.CMEventRespECE:]))

	require.Zero(t, server.accept(passive, 2, params(0x222, "welcome")))
	e = client.expect(connectResponse, 1, 0)
	p = e[abi.CMEventRespParam:]
	require.Equal(t, byte(repData), p[abi.CMConnParamPrivateDataLen])
	require.Equal(t, "welcome\x00", string(p[abi.CMConnParamPrivateData:][:8]))
	server.quiet()
	require.Zero(t, client.accept(active, 0, none))
	server.expect(established, 2, 0)
	client.quiet()

	// Both ends agree on the numbers with which packets begin.
	rtr, rts := client.attributes(active, qpRTR), server.attributes(passive, qpRTS)
	require.Equal(t, le.Uint32(rtr[abi.UQPAttrRQPSN:]), le.Uint32(rts[abi.UQPAttrSQPSN:]))
	require.Equal(t, uint32(0x222), le.Uint32(rtr[abi.UQPAttrDestQPNum:]))
	require.Equal(t, byte(18), rts[abi.UQPAttrTimeout])
	require.Equal(t, byte(6), rts[abi.UQPAttrRNRRetry])

	client.ok(abi.CMCmdDisconnect, 0, words(active))
	client.expect(disconnected, 1, 0)
	server.expect(disconnected, 2, 0)
	server.ok(abi.CMCmdDisconnect, 0, words(passive))
	client.ok(abi.CMCmdDisconnect, 0, words(active))
	client.quiet()
	server.quiet()
	require.Len(t, r.timers, 2)
	require.Equal(t, 1024*time.Millisecond, r.timers[0].d)
	r.pass()
	client.expect(timewaitExit, 1, 0)
	server.expect(timewaitExit, 2, 0)

	require.Equal(t, uint32(5), client.destroy(active))
	require.Equal(t, uint32(3), server.destroy(passive))
	require.Equal(t, uint32(1), server.destroy(listener))
	client.close()
	server.close()
	r.ends()
}

func (f *file) attributes(handle, state uint32) []byte {
	f.Helper()
	req := make([]byte, abi.CMInitQPAttrSize)
	le.PutUint32(req[abi.CMInitQPAttrID:], handle)
	le.PutUint32(req[abi.CMInitQPAttrQPState:], state)
	return f.ok(abi.CMCmdInitQPAttr, abi.UQPAttrSize, req)
}

// Wherever one end of a connection dies, the other end is notified, and nothing is left over.
func TestDeath(t *testing.T) {
	for steps := range 5 {
		for _, dead := range []string{"client", "server"} {
			r := newRig(t)
			client, server, _ := r.pair()
			active := client.resolved(abi.CMPSTCP, 1, inet("10.0.0.2", 7000))
			require.Zero(t, client.connect(active, ""))
			var passive uint32
			for step := range steps {
				switch step {
				case 0:
					passive = idOf(server.expect(connectRequest, 100, 0))
				case 1:
					require.Zero(t, server.accept(passive, 2, params(1, "")))
				case 2:
					client.expect(connectResponse, 1, 0)
				case 3:
					require.Zero(t, client.accept(active, 0, none))
					server.expect(established, 2, 0)
				}
			}
			if dead == "client" {
				client.close()
				switch {
				case steps == 0: // the request is still there, but it cannot be accepted
					passive = idOf(server.expect(connectRequest, 100, 0))
					fallthrough
				case steps == 1:
					require.Equal(t, unix.EINVAL, server.accept(passive, 2, params(1, "")))
				case steps < 4:
					server.expect(rejected, 2, int32(rejConsumer))
				default:
					server.expect(disconnected, 2, 0)
				}
			} else {
				server.close()
				if steps == 2 {
					client.expect(connectResponse, 1, 0)
				}
				if steps < 4 {
					client.expect(rejected, 1, int32(rejConsumer))
				} else {
					client.expect(disconnected, 1, 0)
				}
			}
			client.close()
			server.close()
			r.ends()
		}
	}
}

// Requests without a listener are rejected; the reason is explained to the user.
func TestNobody(t *testing.T) {
	r := newRig(t)
	client, server, _ := r.pair()
	a := client.resolved(abi.CMPSTCP, 1, inet("10.0.0.2", 7001))
	require.Zero(t, client.connect(a, ""))
	client.expect(rejected, 1, int32(rejService))
	require.Contains(t, strings.Join(r.said, "\n"), "no program of this engine listens at 10.0.0.2:7001")
	a = client.resolved(abi.CMPSUDP, 2, inet("10.0.0.2", 7000))
	require.Zero(t, client.connect(a, ""))
	client.expect(unreachable, 2, int32(sidrUnsupported))
	a = client.resolved(abi.CMPSTCP, 3, inet("10.0.0.9", 7000))
	require.Zero(t, client.connect(a, ""))
	client.expect(unreachable, 3, failed(unix.ETIMEDOUT))
	require.Contains(t, strings.Join(r.said, "\n"), "address 10.0.0.9: no program that uses this engine has it")
	h := client.create(abi.CMPSTCP, 4)
	client.ok(abi.CMCmdResolveAddr, 0, resolveRequest(h, sockaddr{}, inet("2001:db8::1", 7000)))
	client.expect(addrError, 4, failed(unix.ENETUNREACH))
	require.Equal(t, unix.EINVAL, client.connect(h, ""))
	client.close()
	server.close()
	r.ends()
}

// Datagrams: the client gets the queue pair of the service.
func TestDatagrams(t *testing.T) {
	r := newRig(t)
	client, server, _ := r.pair()
	l := server.create(abi.CMPSUDP, 101)
	require.Zero(t, server.bind(l, inet("0.0.0.0", 7000)), "another port space")
	require.Zero(t, server.listen(l, 0))
	a := client.resolved(abi.CMPSUDP, 1, inet("10.0.0.2", 7000))
	require.Zero(t, client.connect(a, "who"))
	e := server.expect(connectRequest, 101, 0)
	require.Equal(t, byte(sidrReqData-ipHeader), e[abi.CMEventRespParam:][abi.CMUDParamPrivateDataLen])
	require.Equal(t, "who", string(e[abi.CMEventRespParam:][abi.CMUDParamPrivateData:][:3]))
	require.Zero(t, server.accept(idOf(e), 2, params(0x333, "me")))
	server.quiet()
	e = client.expect(established, 1, 0)
	p := e[abi.CMEventRespParam:]
	require.Equal(t, uint32(0x333), le.Uint32(p[abi.CMUDParamQPNum:]))
	require.Equal(t, uint32(defaultQKey), le.Uint32(p[abi.CMUDParamQKey:]))
	require.Equal(t, gidOf(server.ip), GID(p[abi.CMUDParamAHAttr:][:16]))
	require.Equal(t, byte(sidrRepData), p[abi.CMUDParamPrivateDataLen])
	client.close()
	server.close()
	r.ends()
}

// Private data that does not fit is refused, and accepting with it rejects the request.
func TestPrivateData(t *testing.T) {
	r := newRig(t)
	client, server, _ := r.pair()
	a := client.resolved(abi.CMPSTCP, 1, inet("10.0.0.2", 7000))
	require.Equal(t, unix.EINVAL, client.connect(a, strings.Repeat("x", reqData-ipHeader+1)))
	require.Zero(t, client.connect(a, strings.Repeat("x", reqData-ipHeader)))
	passive := idOf(server.expect(connectRequest, 100, 0))
	require.Equal(t, unix.EINVAL, server.accept(passive, 2, params(1, strings.Repeat("x", repData+1))))
	client.expect(rejected, 1, int32(rejConsumer))
	require.Contains(t, strings.Join(r.said, "\n"), "10.0.0.2:7000 rejects the connection")

	a = client.resolved(abi.CMPSTCP, 2, inet("10.0.0.2", 7000))
	require.Zero(t, client.connect(a, ""))
	passive = idOf(server.expect(connectRequest, 100, 0))
	req := make([]byte, abi.CMRejectSize)
	le.PutUint32(req[abi.CMRejectID:], passive)
	req[abi.CMRejectReason] = 9
	errno, _ := server.call(abi.CMCmdReject, 0, req)
	require.Equal(t, unix.EINVAL, errno)
	req[abi.CMRejectReason] = byte(rejVendor)
	req[abi.CMRejectPrivateDataLen] = byte(copy(req[abi.CMRejectPrivateData:], "no"))
	server.ok(abi.CMCmdReject, 0, req)
	e := client.expect(rejected, 2, int32(rejVendor))
	require.Equal(t, byte(rejData), e[abi.CMEventRespParam:][abi.CMConnParamPrivateDataLen])
	require.Equal(t, "no\x00", string(e[abi.CMEventRespParam:][abi.CMConnParamPrivateData:][:3]))
	client.close()
	server.close()
	r.ends()
}

// When the device goes, the ids that are bound to it are notified.
func TestRemoval(t *testing.T) {
	r, client, server, _, passive := connectedPair(t)
	r.m.Remove()
	require.Equal(t, 2, r.m.Unread())
	client.expect(deviceRemoval, 1, 0)
	require.Equal(t, passive, idOf(server.expect(deviceRemoval, 2, 0)))
	errno, _ := client.call(abi.CMCmdCreateID, 4, append(make([]byte, 16), 6, 1, 0, 0, 0, 0, 0, 0))
	require.Equal(t, unix.EIO, errno)
	client.close()
	server.close()
	r.ends()
}

// NOTIFY is as good as the RTU.
func TestNotify(t *testing.T) {
	r := newRig(t)
	client, server, _ := r.pair()
	a := client.resolved(abi.CMPSTCP, 1, inet("10.0.0.2", 7000))
	require.Zero(t, client.connect(a, ""))
	passive := idOf(server.expect(connectRequest, 100, 0))
	notify := func(event uint32) unix.Errno {
		errno, _ := server.call(abi.CMCmdNotify, 0, words(passive, event))
		return errno
	}
	require.Equal(t, unix.EINVAL, notify(commEstablished))
	require.Zero(t, server.accept(passive, 2, params(1, "")))
	require.Equal(t, unix.EINVAL, notify(5))
	require.Zero(t, notify(commEstablished))
	server.expect(established, 2, 0)
	require.Equal(t, unix.EISCONN, notify(commEstablished))
	client.expect(connectResponse, 1, 0)
	require.Zero(t, client.accept(a, 0, none)) // its RTU comes late
	server.quiet()
	client.close()
	server.expect(disconnected, 2, 0)
	server.close()
	r.ends()
}

// A program gets the end of its connection after it has polled the completions that came
// before, unless it takes too long.
func TestDisconnectedAfterTheLastCompletion(t *testing.T) {
	for _, want := range []struct {
		polled int // the question that is answered with no
		asked  int
		after  time.Duration
	}{{1, 1, 0}, {3, 3, 3 * time.Millisecond}, {1000, 7, 127 * time.Millisecond}} {
		r, client, server, active, passive := connectedPair(t)
		asked := 0
		r.m.Unpolled = func(uid, qpn uint32) bool {
			require.Equal(t, []uint32{1000, 0x222}, []uint32{uid, qpn})
			asked++
			return asked < want.polled
		}
		client.ok(abi.CMCmdDisconnect, 0, words(active))
		client.expect(disconnected, 1, 0) // it has asked for it
		var after time.Duration
		for len(server.ch.events) == 0 {
			after += r.shortest()
		}
		require.Equal(t, want.asked, asked)
		require.Equal(t, want.after, after)
		server.expect(disconnected, 2, 0)
		server.ok(abi.CMCmdDisconnect, 0, words(passive)) // no error, though it is late
		require.Equal(t, uint32(2), server.destroy(passive))
		client.destroy(active)
	}
}

// An id may be destroyed before its program is notified of the end of the connection.
func TestDestroyBeforeDisconnected(t *testing.T) {
	r, client, server, active, passive := connectedPair(t)
	r.m.Unpolled = func(uint32, uint32) bool { return true }
	client.ok(abi.CMCmdDisconnect, 0, words(active))
	client.destroy(active)
	require.Len(t, r.timers, 1)
	late := r.timers[0].f
	require.Equal(t, uint32(1), server.destroy(passive))
	require.Empty(t, r.timers)
	late() // it was under way already
	server.quiet()
	client.close()
	server.close()
	r.ends()
}
