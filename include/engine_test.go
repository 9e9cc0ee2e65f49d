package include

import (
	"context"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nicless/nicless"
	"github.com/nicless/nicless/internal/control"
)

// The C client uses every function with a real engine, and checks the results itself.
func TestClient(t *testing.T) {
	each(t, "client", func(t *testing.T, path string) {
		socket := serve(t)
		for scenario, want := range map[string]string{
			"operations": "operations: ok\n",
			"stress":     "stress: 4 threads, 32000 WQEs, 2250 laps of 16 blocks\n",
			"rdmaxcel":   "rdmaxcel: ok\n",
			"launch":     "launch: ok\n",
			"collapsed":  "collapsed: ok\n",
			"channel":    "channel: ok\n",
			"explain":    "explain: ok\n",
		} {
			if strings.HasSuffix(t.Name(), "c++17") && (scenario == "stress" || scenario == "rdmaxcel") {
				continue // these take long, and the golden tests already compare the bytes that C++ writes
			}
			t.Run(scenario, func(t *testing.T) {
				out, err := run(t, path, socket, scenario)
				require.NoError(t, err, "%s", out)
				require.Equal(t, want, out)
			})
		}
	})
}

// The engine refuses mistakes of a C client in words. A datagram too short for an
// answer ends the connection. Another client is not affected.
func TestClientMistakes(t *testing.T) {
	each(t, "client", func(t *testing.T, path string) {
		socket := serve(t)
		other, err := nicless.Dial(socket)
		require.NoError(t, err)
		defer func() { require.NoError(t, other.Close()) }()
		out, err := run(t, path, socket, "mistakes")
		require.NoError(t, err, "%s", out)
		lines := strings.Split(strings.TrimSpace(out), "\n")
		wants := []string{
			"mr: the engine refuses: ", "pd: the engine refuses: ",
			"cq: CQ of 2^30 entries; 2^22 are possible",
			"cq: CQ of 2^8 entries: 0 of the region's 8192 bytes are taken",
			"qp: QP of 2^60 blocks and 2^0 receives of 2^0 pieces; 2^15, 2^15 and 2^5 are possible",
			"qp: the engine refuses: ", "payload: the engine refuses: ", "operation: the engine refuses: ",
			"header: the engine has closed the connection",
		}
		require.Len(t, lines, len(wants), "%s", out)
		for i, want := range wants {
			require.Contains(t, lines[i], want)
			t.Log(lines[i])
		}
		works(t, other)
	})
}

// works writes eight bytes from a queue pair to itself.
func works(t *testing.T, ctx *nicless.Context) {
	t.Helper()
	pd, err := ctx.AllocPD()
	require.NoError(t, err)
	mr, err := pd.RegisterMemory(4096, nicless.FullAccess)
	require.NoError(t, err)
	cq, err := ctx.CreateCQ(nicless.CQConfig{})
	require.NoError(t, err)
	qp, err := pd.CreateQP(nicless.QPConfig{SendCQ: cq})
	require.NoError(t, err)
	require.NoError(t, qp.Connect(qp.Descriptor(), nicless.Connection{}))
	require.NoError(t, qp.PostSend(&nicless.SendWR{Op: nicless.Write, Flags: nicless.Signaled, Data: []byte("unharmed"),
		RemoteAddr: mr.Addr(), RKey: mr.RKey()}))
	var done [1]nicless.Completion
	_, err = cq.Wait(context.Background(), done[:])
	require.NoError(t, err)
	require.NoError(t, done[0].Err())
	require.Equal(t, "unharmed", string(mr.Bytes()[:8]))
}

// pretend listens on a socket and sends the bytes in answer in reply to the first request.
func pretend(t *testing.T, answer []byte) (socket string) {
	t.Helper()
	socket = filepath.Join(t.TempDir(), "fake.sock")
	l, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: socket, Net: "unixpacket"})
	require.NoError(t, err)
	served := make(chan struct{})
	go func() {
		defer close(served)
		c, err := l.AcceptUnix()
		if err != nil {
			return
		}
		defer func() { _ = c.Close() }()
		var in [control.MaxMessage]byte
		if _, err := c.Read(in[:]); err == nil && answer != nil {
			_, _ = c.Write(answer)
		}
	}()
	t.Cleanup(func() {
		_ = l.Close()
		<-served
	})
	return socket
}

// The error of a failed connection says what is wrong, for example that there is no engine, or
// that the socket has another type, or that the server speaks another protocol.
func TestConnectRefused(t *testing.T) {
	answer := func(op control.Op, flags uint16, tag uint64, m control.Message) []byte {
		return control.Append(nil, op, flags, tag, m)
	}
	welcome := answer(control.OpHello, control.FlagAnswer, 1, &control.Welcome{Major: control.Major, UARPages: 1})
	stream := filepath.Join(t.TempDir(), "stream.sock")
	l, err := net.Listen("unix", stream)
	require.NoError(t, err)
	defer func() { _ = l.Close() }()
	each(t, "client", func(t *testing.T, path string) {
		for _, v := range []struct{ name, socket, want string }{
			{"nobody", "/nonexistent/engine.sock", "-2 no engine at /nonexistent/engine.sock: No such file or directory"},
			{"long path", "/" + strings.Repeat("x", 200), "-36 socket path of 201 bytes; 107 are possible"},
			{"stream socket", stream, "-91 " + stream + " is a socket of another kind, not an engine's (SOCK_SEQPACKET)"},
			{"closes", pretend(t, nil), "-104 the engine has closed the connection"},
			{"short header", pretend(t, welcome[:7]), "-71 answer of 7 bytes to request 1; a header alone has 16"},
			{"short payload", pretend(t, welcome[:40]), "-71 answer to request 1: the header says 64 bytes of payload, 24 came"},
			{"other payload", pretend(t, answer(control.OpHello, control.FlagAnswer, 1, &control.PD{})),
				"-71 answer to request 1 with 4 bytes of payload, 64 are needed"},
			{"other request", pretend(t, answer(control.OpAllocPD, control.FlagAnswer, 1, &control.PD{})),
				"-71 answer with operation 2, tag 1, flags 1 to request 1, tag 1: not an engine of this protocol"},
			{"a request", pretend(t, answer(control.OpHello, 0, 1, &control.Welcome{})),
				"-71 answer with operation 1, tag 1, flags 0 to request 1, tag 1: not an engine of this protocol"},
			{"too long", pretend(t, make([]byte, 600)), "-71 the engine's answer is too long: more than 512 bytes or two descriptors"},
			{"version", pretend(t, answer(control.OpHello, control.FlagAnswer, 1, &control.Welcome{Major: 3, Minor: 3})),
				"-93 the engine speaks version 3.3 of the protocol, this client 2.0"},
			{"refused", pretend(t, answer(control.OpHello, control.FlagAnswer|control.FlagError, 1,
				control.Errorf(control.CodeVersion, "major version 1; 2 is spoken here"))),
				"-93 the engine refuses: major version 1; 2 is spoken here"},
			{"no descriptors", pretend(t, welcome), "-71 the engine's welcome came with 0 descriptors, 2 are needed"},
		} {
			t.Run(v.name, func(t *testing.T) {
				out, err := run(t, path, v.socket, "greet")
				require.NoError(t, err, "%s", out)
				require.Equal(t, v.want, strings.TrimSpace(out))
			})
		}
	})
}

// The programs that need no engine succeed: posters with a poller, and a client of malicious servers.
func TestAlone(t *testing.T) {
	for _, program := range []string{"selftest", "hostile"} {
		t.Run(program, func(t *testing.T) {
			each(t, program, func(t *testing.T, path string) {
				out, err := run(t, path)
				require.NoError(t, err, "%s", out)
			})
		})
	}
}
