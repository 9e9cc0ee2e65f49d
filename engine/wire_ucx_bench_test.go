package engine

import (
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nicless/nicless/fabric/ucx"
	"github.com/nicless/nicless/fabric/ucx/ucxtest"
	"github.com/nicless/nicless/internal/cpu"
	"github.com/nicless/nicless/internal/freeport"
	"github.com/nicless/nicless/wqe"
	"github.com/stretchr/testify/require"
)

// BenchmarkUCX measures WRITEs over UCX beside ucx_perftest, which sends active messages over the
// same transport. The thread that posts and polls also steps the engine, which is at both ends: so three
// threads are at work, this one and the two carriers, and two for ucx_perftest. On two cores the
// third waits for a core, unless this one gives its core away after each step ("yielding"). A WRITE of
// 8 bytes is a packet there and an acknowledgement back, and is compared with a message there and one
// back.
func BenchmarkUCX(b *testing.B) {
	ucxtest.NeedUCX(b)
	program, err := exec.LookPath("ucx_perftest")
	if err != nil {
		b.Skip("NOT MEASURED: ucx_perftest is not installed (Debian: apt install ucx-utils)")
	}
	for name, tls := range map[string]string{"tcp": "tcp", "posix": "posix,tcp"} {
		for _, row := range []struct {
			name  string
			size  int
			n     int
			depth int
			test  string
			yield bool
		}{
			{"latency", 8, 2000, 1, "ucp_am_lat", false}, {"latency, yielding,", 8, 2000, 1, "ucp_am_lat", true},
			{"bandwidth", 1 << 20, 100, 8, "ucp_am_bw", false}, {"bandwidth, yielding,", 1 << 20, 100, 8, "ucp_am_bw", true},
		} {
			b.Run(row.name+" "+name, func(b *testing.B) {
				var ends [2]*ucx.Carrier
				overCable = func(r *rig) *cable { return r.newUCX(&ends, ucxOver(tls)) }
				defer func() { overCable = nil }()
				r, p, q := duo(b, Config{})
				p.q.Attr.Timeout = 20
				near, far := p.h.full(row.size, 1), q.h.full(row.size, 2)
				f := flowOf(p, ctrl(wqe.OpRDMAWrite), far.raddr(0), near.data(0, row.size))
				step := func() {
					r.e.Step()
					if row.yield {
						cpu.Yield()
					}
				}
				ours := func() float64 {
					f.run(row.n/10, row.depth, 1, step)
					began := time.Now()
					f.run(row.n, row.depth, 1, step)
					return float64(time.Since(began)) / float64(row.n)
				}
				theirs := func() float64 {
					trip := perftest(b, program, ucxOver(tls).Env, row.test, row.size, row.n)
					if row.depth == 1 {
						trip *= 2 // ucx_perftest says half a round trip
					}
					return trip
				}
				c := contest{[2]string{"wire", "perftest"}, [2]func() float64{ours, theirs}, row.size}
				if row.depth == 1 {
					c.bytes = 0
				}
				c.run(b)
				b.ReportMetric(float64(p.h.rig.handle(p.q.Wire.Port).Stats().Resent), "resent")
			})
		}
	}
}

// perftest runs a test of ucx_perftest, and returns nanoseconds for each message.
func perftest(b *testing.B, program string, env []string, test string, size, n int) float64 {
	port := strconv.Itoa(freeport.TCP(b))
	server := exec.Command(program, "-p", port)
	server.Env = append(os.Environ(), env...)
	require.NoError(b, server.Start())
	defer func() {
		_ = server.Process.Kill()
		_ = server.Wait()
	}()
	for until := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		client := exec.Command(program, "127.0.0.1", "-p", port, "-t", test, "-s", strconv.Itoa(size), "-n", strconv.Itoa(n), "-w", strconv.Itoa(n/10), "-f")
		client.Env = server.Env
		out, err := client.CombinedOutput()
		fields := strings.Fields(string(out[strings.LastIndexByte(strings.TrimSpace(string(out)), '\n')+1:]))
		if err == nil && len(fields) >= 8 {
			us, err := strconv.ParseFloat(fields[len(fields)-5], 64) // "overall" time
			require.NoError(b, err, "%s", out)
			return us * 1e3
		}
		require.True(b, time.Now().Before(until), "ucx_perftest: %s", out)
	}
}
