//go:build linux && (amd64 || arm64)

package programs

import (
	"net"
	"regexp"
	"strconv"
	"strings"

	"github.com/stretchr/testify/require"

	"github.com/nicless/nicless/internal/await"
	"github.com/nicless/nicless/internal/proctest"
)

// A talk is from one node to an address of another.
type talk struct {
	from, to *node
	address  string
}

// talks are those from one node to another: over IPv4, and over IPv6.
func talks(from, to *node) [2]talk {
	return [2]talk{{from, to, to.address()}, {from, to, to.address6()}}
}

// roundTrip returns ping's middle round trip in microseconds.
func (k talk) roundTrip(count int) float64 {
	k.from.t.Helper()
	proctest.Need(k.from.t, "ping")
	said := k.from.run("ping", "-n", "-i", "0.002", "-W", "20", "-c", strconv.Itoa(count), k.address)
	var all []float64
	for _, at := range regexpTime.FindAllStringSubmatch(said, -1) {
		ms, err := strconv.ParseFloat(at[1], 64)
		require.NoError(k.from.t, err)
		all = append(all, ms*1000)
	}
	require.Greater(k.from.t, len(all), count/2, "%s", said)
	return median(all)
}

var regexpTime = regexp.MustCompile(`time=([0-9.]+) ms`)

// copies sends bytes by TCP and compares the checksums of both ends.
func (k talk) copies(size int) {
	k.from.t.Helper()
	k.copied(k.copying(size))
}

// copying begins to send bytes by TCP.
func (k talk) copying(size int) (server, client *process) {
	k.from.t.Helper()
	server = k.to.program("tcp-serve", k.address)
	client = k.from.program("tcp-send", net.JoinHostPort(k.address, server.says("port ")), size, 1+k.from.number)
	together(server, client)
	return server, client
}

// copied waits for the end of what copying has begun.
func (k talk) copied(server, client *process) {
	k.from.t.Helper()
	if client.wait() != nil {
		k.from.t.Logf("the server has said: %s", server.said.String())
	}
	sent, got := line(client.succeeds(), "copied "), line(server.succeeds(), "copied ")
	require.NotEmpty(k.from.t, sent)
	require.Equal(k.from.t, sent, got, "size and SHA-256")
}

// asks sends datagrams of these sizes one after the other, and requires that each comes back.
func (k talk) asks(kind string, sizes ...any) {
	k.from.t.Helper()
	server := k.to.program("udp-echo", kind, k.address)
	args := append([]any{kind, k.address, server.says("port ")}, sizes...)
	client := k.from.program("udp-ask", args...)
	together(server, client)
	said := client.succeeds()
	require.Contains(k.from.t, said, "lost 0\n")
}

// floods sends datagrams without waiting. Some may be lost, as in every network, and those that come are as
// they were sent. If all are lost, because a peer got no core for as long as packets wait for it, another
// flood is sent.
func (k talk) floods(count, size int) (received int) {
	k.from.t.Helper()
	await.Until(k.from.t, "datagrams of a flood arrive", func() bool {
		received = k.flood(count, size)
		return received > 0
	})
	return received
}

func (k talk) flood(count, size int) (received int) {
	k.from.t.Helper()
	server := k.to.program("udp-count", k.address)
	client := k.from.program("udp-flood", k.address, server.says("port "), count, size)
	together(server, client)
	said := client.succeeds()
	server.succeeds()
	_, text, ok := strings.Cut(strings.TrimSpace(said), "received ")
	require.True(k.from.t, ok, said)
	received, err := strconv.Atoi(text)
	require.NoError(k.from.t, err)
	k.from.t.Logf("UDP to %s, %d bytes each: %s", k.address, size, strings.TrimSpace(said))
	return received
}

// line returns the first line of a text that begins so.
func line(text, begins string) string {
	for l := range strings.Lines(text) {
		if strings.HasPrefix(l, begins) {
			return l
		}
	}
	return ""
}
