//go:build linux && (amd64 || arm64)

package roce

import (
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nicless/nicless/fabric/roce/flood"
	"github.com/nicless/nicless/internal/freeport"
	"github.com/nicless/nicless/internal/packetring"
	"github.com/stretchr/testify/require"
)

// floodVar makes a process of the test program a flooder: kind, addresses, rate and seconds.
const floodVar = "NICLESS_TEST_FLOOD"

func TestMain(m *testing.M) {
	if words := strings.Fields(os.Getenv(floodVar)); len(words) == 5 {
		rate, _ := strconv.Atoi(words[3])
		d, _ := time.ParseDuration(words[4])
		n, err := flood.Run(flood.Config{
			Kind: flood.Kind(words[0]), From: netip.MustParseAddr(words[1]), To: netip.MustParseAddr(words[2]), Rate: rate, For: d,
		}, nil)
		fmt.Println(n)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// floods starts a process that floods an address. wait returns how many datagrams it has sent.
func floods(t testing.TB, kind flood.Kind, from, to netip.Addr, rate int, d time.Duration) (wait func() int) {
	t.Helper()
	c := exec.Command("/proc/self/exe")
	c.Env = append(os.Environ(), fmt.Sprintf("%s=%s %v %v %d %v", floodVar, kind, from, to, rate, d))
	c.Stderr = os.Stderr
	out := new(strings.Builder)
	c.Stdout = out
	require.NoError(t, c.Start())
	return func() int {
		require.NoError(t, c.Wait())
		n, err := strconv.Atoi(strings.TrimSpace(out.String()))
		require.NoError(t, err)
		return n
	}
}

// BenchmarkFlood is an 8-byte WRITE in each millisecond and its acknowledgement, between two
// carriers, beside a process that floods the one that is written to. A packet that is not
// answered in resendAfter is sent again, as a queue pair with the timeout 14 does. ReportMetric
// says how many were, and how long a WRITE takes in the median, at the 99th percentile and at
// most.
func BenchmarkFlood(b *testing.B) {
	for _, f := range []struct {
		kind flood.Kind
		rate int
	}{{"none", 0}, {flood.Junk, 1_000_000}, {flood.WrongICRC, 300_000}, {flood.UnknownQP, 300_000}, {flood.Requests, 100_000}} {
		b.Run(fmt.Sprintf("%s/%d", f.kind, f.rate), func(b *testing.B) { writeBesideFlood(b, f.kind, f.rate) })
	}
}

const (
	resendAfter = 67 * time.Millisecond
	floodTime   = 5 * time.Second
)

func writeBesideFlood(b *testing.B, kind flood.Kind, rate int) {
	addr := freeport.Loopback(b, 3)
	request, answer := head(writeOnly, 1), head(acknowledge, 1)
	w := wire{"loopback", addr[0], addr[1], func(a netip.Addr) *Sockets {
		s, err := OpenSockets(a, 1)
		require.NoError(b, err)
		return s
	}}
	answers := make(chan uint32, 1024)
	x, path, end := w.between(b, Config{}, modes[0], func(_, _ *host, p *packetring.Packet) {
		select {
		case answers <- 0:
		default:
		}
	}, func(_, y *host, p *packetring.Packet) {
		if p.Head[0] == byte(writeOnly) && len(p.Payload) == 8 && string(p.Head[:p.N]) == string(request) {
			y.post(answer, p.Path, 0)
		}
	})
	defer end()
	var took []time.Duration
	sent := func() int { return 0 }
	if rate > 0 {
		sent = floods(b, kind, addr[2], addr[1], rate, floodTime)
	}
	resent, begin := 0, time.Now()
	for due := begin; due.Sub(begin) < floodTime; due = due.Add(time.Millisecond) {
		if d := time.Until(due); d > 0 {
			time.Sleep(d)
		} else if -d > time.Millisecond {
			due = time.Now()
		}
		from := time.Now()
		for answered := false; !answered; {
			x.post(request, path, 8)
			timer := time.NewTimer(resendAfter)
			select {
			case <-answers:
				answered = true
			case <-timer.C:
				resent++
			}
			timer.Stop()
		}
		took = append(took, time.Since(from))
	}
	slices.Sort(took)
	us := func(part float64) float64 { return float64(took[int(part*float64(len(took)-1))]) / 1e3 }
	n := sent()
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(n)/floodTime.Seconds(), "flood/s")
	b.ReportMetric(float64(resent), "resent")
	b.ReportMetric(float64(len(took)), "writes")
	b.ReportMetric(us(0.5), "p50-us")
	b.ReportMetric(us(0.99), "p99-us")
	b.ReportMetric(us(1), "max-us")
}
