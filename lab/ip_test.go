package lab

import (
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

// IP packets go from machine to machine over the engines, or in slots of the shared memory.
func TestIP(t *testing.T) {
	long(t)
	for _, kind := range kinds {
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

// ping sends 50 packets, all of which have to come back.
func ping(from, to *place) {
	from.t.Helper()
	said := from.run("ping", "-q", "-c", "50", "-i", "0.01", "-W", "10", to.address)
	require.Contains(from.t, said, "50 packets transmitted, 50 received, 0% packet loss")
	from.t.Log(lastLine(said))
}

// iperf sends a stream of TCP for a second.
func iperf(from, to *place) {
	from.t.Helper()
	server := to.start("iperf3", "--server", "--one-off", "--forceflush")
	server.says("Server listening")
	said := from.run("iperf3", "--client", to.address, "--time", "1")
	server.succeeds()
	result := regexp.MustCompile(`(?m)^.* ([0-9.]+ [KMG]?bits/sec) +receiver$`).FindStringSubmatch(said)
	require.NotNil(from.t, result, said)
	require.NotEqual(from.t, "0.00 bits/sec", result[1], said)
	from.t.Logf("iperf3: %s arrived in a second, from %s to %s", result[1], from.name, to.name)
}
