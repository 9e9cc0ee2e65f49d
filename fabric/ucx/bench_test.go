//go:build linux && (amd64 || arm64)

package ucx

import (
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nicless/nicless/fabric/ucx/ucxtest"
	"github.com/nicless/nicless/internal/await"
	"github.com/nicless/nicless/internal/packetring"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// Benchmarks of what the carrier adds to UCX. BenchmarkPeer runs UCX's own benchmark with the same
// transport and sizes; compare medians of alternating runs:
//
//	go test ./fabric/ucx -run '^$' -bench . -count 5

var transports = map[string][]string{
	"tcp":   {"UCX_TLS=tcp,self", "UCX_NET_DEVICES=lo"},
	"posix": {"UCX_TLS=posix,tcp,self", "UCX_NET_DEVICES=lo"},
}

// securities are the kinds of links that stand side by side in one run.
var securities = []string{"plain", "keys", "encrypted"}

func benchPair(b *testing.B, env []string, security string) (one, two side) {
	x, y := Config{Env: env}, Config{Env: env}
	if security != "plain" {
		x.Auth, y.Auth = keyedPair(b)
		x.Auth.Encrypt, y.Auth.Encrypt = security == "encrypted", security == "encrypted"
	}
	one, two, _ = pair(b, x, y)
	return one, two
}

// eachKind runs a benchmark over each transport, and each kind of link.
func eachKind(b *testing.B, run func(b *testing.B, one, two side)) {
	for _, name := range []string{"tcp", "posix"} {
		for _, security := range securities {
			b.Run(name+" "+security, func(b *testing.B) {
				one, two := benchPair(b, transports[name], security)
				run(b, one, two)
			})
		}
	}
}

// A packet of 8 bytes there and one back.
func BenchmarkRoundTrip(b *testing.B) {
	eachKind(b, func(b *testing.B, one, two side) {
		done := make(chan bool)
		n := b.N
		go func() {
			defer close(done)
			var p packetring.Packet
			for range n {
				two.d.sleep(b, &p)
				two.d.send(b, two.path, p.Head[:12], p.Payload)
			}
		}()
		head, payload := make([]byte, 12), make([]byte, 8)
		var p packetring.Packet
		b.ResetTimer()
		for range n {
			one.d.send(b, one.path, head, payload)
			one.d.sleep(b, &p)
		}
		b.StopTimer()
		<-done
	})
}

// Packets one way, as long as the MTU allows. One operation is 1 MiB.
func BenchmarkBandwidth(b *testing.B) {
	eachKind(b, func(b *testing.B, one, two side) {
		const each = (1 << 20) / defaultMTU
		head, payload := make([]byte, 12), make([]byte, defaultMTU)
		n := b.N
		b.SetBytes(1 << 20)
		b.ResetTimer()
		sent, got := 0, 0
		var p packetring.Packet
		// One thread is both engines: the two processes need the cores.
		for got < n*each {
			moved := false
			for sent < n*each {
				h, to, ok := one.d.cfg.Send.Reserve(len(head), len(payload))
				if !ok {
					break
				}
				copy(h, head)
				to[0] = payload[0]
				one.d.cfg.Send.Publish(one.path)
				sent, moved = sent+1, true
			}
			one.d.cfg.Wake()
			for {
				ok, err := two.d.cfg.Receive.Next(&p)
				require.NoError(b, err)
				if !ok {
					break
				}
				got, moved = got+1, true
			}
			two.d.cfg.Receive.Free()
			if !moved {
				time.Sleep(20 * time.Microsecond)
				runtime.Gosched()
			}
		}
	})
}

// UCX's own benchmark of active messages, by two processes.
func BenchmarkPeer(b *testing.B) {
	ucxtest.NeedUCX(b)
	program, err := exec.LookPath("ucx_perftest")
	if err != nil {
		b.Skip("NOT MEASURED: ucx_perftest is not installed (Debian: apt install ucx-utils)")
	}
	port := 20000
	for name, env := range transports {
		for _, test := range []struct{ name, size, count string }{{"ucp_am_lat", "8", "20000"}, {"ucp_am_bw", "1048576", "2000"}} {
			b.Run(name+" "+test.name+" "+test.size, func(b *testing.B) {
				for range b.N {
					port++
					p := strconv.Itoa(port)
					server := exec.Command(program, "-p", p)
					server.Env = env
					require.NoError(b, server.Start())
					var out []byte
					await.Until(b, "ucx_perftest runs", func() bool {
						c := exec.Command(program, "localhost", "-p", p, "-t", test.name, "-s", test.size, "-n", test.count, "-f")
						c.Env = env
						out, err = c.CombinedOutput()
						return err == nil
					}, func() any { return string(out) })
					require.NoError(b, server.Wait())
					lines := strings.Split(strings.TrimSpace(string(out)), "\n")
					b.Log(lines[len(lines)-1])
				}
			})
		}
	}
}

// How long a peer that stands still is one that is up: Config.Dead and what is added to it.
func BenchmarkSilentPeer(b *testing.B) {
	const dead = 300 * time.Millisecond
	for b.Loop() {
		one, two, _ := pair(b, Config{Dead: dead}, Config{Dead: dead})
		pid, _ := two.Process()
		require.NoError(b, unix.Kill(pid, unix.SIGSTOP))
		began := time.Now()
		await.Until(b, "the peer is down", func() bool { return !peerUp(one.Carrier, 2) })
		b.ReportMetric(float64(time.Since(began).Milliseconds()), "ms/down")
		require.NoError(b, unix.Kill(pid, unix.SIGCONT))
		require.NoError(b, two.Close())
		require.NoError(b, one.Close())
	}
}
