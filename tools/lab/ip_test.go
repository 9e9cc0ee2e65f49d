package lab

import (
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/nicless/nicless/internal/share"
	"github.com/stretchr/testify/require"
)

// IP packets go from machine to machine over the engines, or in slots of the shared memory.
func TestIP(t *testing.T) {
	long(t)
	for i, kind := range kinds {
		if !share.Has(3 - i) { // the other kind than in TestVerbs
			continue
		}
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			m := files(t, stock)
			m.has(t, "ping", "iperf3")
			p := newPair(t, kind, m)
			p.startEngines()
			for _, way := range []struct {
				name  string
				flags func(n *place) []string
			}{
				{"packets in messages", func(*place) []string { return nil }},
				{"packets in slots", func(n *place) []string { return []string{"--slots", n.slots} }},
			} {
				ok := t.Run(way.name, func(t *testing.T) {
					p.use(t)
					stop := p.startNets(way.flags)
					ping(p.nodes[0], p.nodes[1])
					iperf(p.nodes[0], p.nodes[1])
					stop()
				})
				if !ok {
					return
				}
			}
		})
	}
}

// ping sends echo requests until the first 50 are answered. One may be lost if an interface says that it has
// dropped a packet, which it does if the peer takes nothing for 100 ms: on a busy host a machine stands still
// for longer. Then a hundred later requests have to be answered; packets are not overtaken by as many.
func ping(from, to *place) {
	from.t.Helper()
	const first, later = 50, 100
	r := from.start("ping", "-n", "-i", "0.01", to.address)
	looked, done, lost := -1, false, []int(nil)
	r.awaits("answers to the first requests", func() bool {
		if n := r.said.Len(); n != looked {
			looked = n
			lost, done = unanswered(r.said.String(), first, later)
		}
		if r.ended() {
			require.FailNow(from.t, "ended", "ended (%v): %v", r.err, r.job())
		}
		return done
	})
	r.kill()
	if len(lost) == 0 {
		return
	}
	require.GreaterOrEqual(from.t, from.dropped()+to.dropped(), len(lost), "the requests %v were not answered, and not as many packets were dropped", lost)
	from.t.Logf("ping: the requests %v were lost: interfaces have dropped packets", lost)
}

// unanswered returns which of the first requests have no answer, and whether enough others have one.
func unanswered(said string, first, later int) (lost []int, done bool) {
	answered := make(map[int]bool)
	for _, at := range regexp.MustCompile(`icmp_seq=(\d+) ttl=.*\n`).FindAllStringSubmatch(said, -1) {
		n, _ := strconv.Atoi(at[1])
		answered[n] = true
	}
	for i := range first {
		if !answered[i+1] {
			lost = append(lost, i+1)
		}
	}
	return lost, len(lost) == 0 || len(answered) >= first-len(lost)+later
}

// dropped returns how many packets a machine has dropped: the kernel, because the interface's process did not
// read them, and the interface, because its peer did not take them.
func (p *place) dropped() (sum int) {
	p.t.Helper()
	said := p.run("sh", "-c", "cat /sys/class/net/*/statistics/[rt]x_dropped")
	said += " " + p.droppedForPeer()
	for _, text := range strings.Fields(said) {
		n, err := strconv.Atoi(text)
		require.NoError(p.t, err, said)
		sum += n
	}
	return sum
}

// droppedForPeer returns how many packets the machine's interface has dropped. An interface that answers
// nicless links too late, because its machine stands still, is asked again.
func (p *place) droppedForPeer() string {
	p.t.Helper()
	said := ""
	for range 10 {
		r := p.start("nicless", "links", "--engine", p.socket)
		_ = r.ends()
		said = r.said.String()
		if found := regexp.MustCompile(`(\d+) were dropped for one`).FindStringSubmatch(said); found != nil {
			return found[1]
		}
	}
	require.FailNow(p.t, "no counts of the interface", "%s: nicless links said at last:\n%s", p.name, said)
	return ""
}

// iperf sends a MiB over TCP. It counts bytes and no time: an emulated machine may stand still for seconds.
func iperf(from, to *place) {
	from.t.Helper()
	server := to.start("iperf3", "--server", "--one-off", "--forceflush")
	server.says("Server listening")
	said := from.run("iperf3", "--client", to.address, "--bytes", "1M")
	server.succeeds()
	result := regexp.MustCompile(`(?m)^.* ([0-9.]+ [KMG]?bits/sec) +receiver$`).FindStringSubmatch(said)
	require.NotNil(from.t, result, said)
	require.NotEqual(from.t, "0.00 bits/sec", result[1], said)
	from.t.Logf("iperf3: 1 MiB arrived at %s, from %s to %s", result[1], from.name, to.name)
}

// Only requests whose answer must have come by now are lost.
func TestUnanswered(t *testing.T) {
	answer := func(n int) string {
		return "64 bytes from 192.168.8.101: icmp_seq=" + strconv.Itoa(n) + " ttl=64 time=1 ms\n"
	}
	lost, done := unanswered(answer(1)+answer(3), 3, 2)
	require.Equal(t, []int{2}, lost)
	require.False(t, done)
	lost, done = unanswered(answer(1)+answer(3)+answer(4)+answer(5), 3, 2)
	require.Equal(t, []int{2}, lost)
	require.True(t, done)
	lost, done = unanswered(answer(1)+answer(3)+answer(2), 3, 2)
	require.Empty(t, lost)
	require.True(t, done)
}
