//go:build linux && (amd64 || arm64)

package web

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/nicless/nicless"
	"github.com/nicless/nicless/cmd/nicless/internal/enginetest"
	"github.com/nicless/nicless/internal/await"
	"github.com/nicless/nicless/state"
	"github.com/nicless/nicless/tools/chromium"
	"github.com/stretchr/testify/require"
)

// A joined is an engine whose links are nodes of pools, and a client of it.
type joined struct {
	path string
	stop func()
	*enginetest.Client
}

// join runs an engine with links, until the test ends or stop is called.
func join(t *testing.T, links ...string) *joined {
	t.Helper()
	j := &joined{path: filepath.Join(t.TempDir(), "e")}
	stop := enginetest.Run(t, j.path, nicless.Config{Links: links})
	ended := false
	j.stop = func() {
		if !ended {
			ended = true
			stop()
		}
	}
	t.Cleanup(func() { j.stop() })
	j.Client = enginetest.Dial(t, j.path, nicless.CQConfig{})
	t.Cleanup(func() { _ = j.Close() })
	return j
}

// connect makes a queue pair of each engine, connects the two over a link, and sends a message from the first
// to the second.
func connect(t *testing.T, from, to *joined) (near, far uint32) {
	t.Helper()
	a, err := from.PD.CreateQP(nicless.QPConfig{SendCQ: from.CQ})
	require.NoError(t, err)
	b, err := to.PD.CreateQP(nicless.QPConfig{SendCQ: to.CQ})
	require.NoError(t, err)
	await.Until(t, "the link is up", func() bool { return a.Connect(b.Descriptor(), nicless.Connection{}) == nil })
	await.Until(t, "the link is up", func() bool { return b.Connect(a.Descriptor(), nicless.Connection{}) == nil })
	require.NoError(t, b.PostRecv(&nicless.RecvWR{SGE: []nicless.SGE{to.MR.SGE(0, 64)}}))
	require.NoError(t, a.PostSend(&nicless.SendWR{Op: nicless.Send, Flags: nicless.Signaled,
		SGE: []nicless.SGE{from.MR.SGE(0, 64)}}))
	for _, cq := range []*nicless.CQ{from.CQ, to.CQ} {
		var done [1]nicless.Completion
		_, err := cq.Wait(await.Context(t), done[:])
		require.NoError(t, err)
		require.NoError(t, done[0].Err())
	}
	return a.QPN(), b.QPN()
}

// graph returns what fabricOf makes of the newest frame: an edge QUEUE>LINK for each queue with a peer
// elsewhere, in the order of the queues, then the keys of the links and peers.
func graph(t *testing.T, p *chromium.Page) string {
	t.Helper()
	p.Do(chromedp.Evaluate[chromedp.Void](`window.joined = undefined; import("./fabric.js").then(({ fabricOf }) => {
		const stream = new EventSource("events?sort=queue");
		stream.onmessage = (event) => {
			stream.close();
			const { columns, edges } = fabricOf(JSON.parse(event.data));
			window.joined = edges.filter((e) => e[2] === 2).map((e) => e[1] + ">" + e[3]).join(" ") + " | " +
				[...columns[2].keys()];
		};
	}); undefined`))
	waitFor(t, p, "the graph", "window.joined !== undefined")
	return chromium.Evaluate[string](p, "window.joined")
}

// portOf returns the number of the port that packets of a queue take.
func portOf(t *testing.T, path string, queue uint32) uint32 {
	t.Helper()
	s, err := state.Read(await.Context(t), path, state.Request{Kinds: []state.Kind{state.Queues}, Queue: queue})
	require.NoError(t, err)
	require.Len(t, s.Queues, 1)
	require.True(t, s.Queues[0].Linked)
	return s.Queues[0].Port
}

// The graph of an engine with links to others, in memory that they share. With one link, its queue is joined
// to it; with two, each queue to its port. A peer that ends is down.
func TestBrowserGraphOfRealLinks(t *testing.T) {
	dir := t.TempDir()
	link := func(pool string, node int) string {
		return fmt.Sprintf("pool:%s,node=%d,nodes=2,size=8M,dead=1m", filepath.Join(dir, pool), node)
	}
	near := join(t, link("p", 0), link("q", 0))
	one, two := join(t, link("p", 1)), join(t, link("q", 1))
	toOne, ofOne := connect(t, near, one)
	toTwo, _ := connect(t, near, two)

	p := chromium.Open(t, serve(t, Options{Socket: one.path}))
	waitFor(t, p, "three queues", "document.querySelectorAll('#rows tr').length === 3")
	waitFor(t, p, "the peer", shown("node 0 up")+".length === 1")
	require.Equal(t, fmt.Sprintf("%d>link 0 | link 0,peer 0 node 0", ofOne), graph(t, p))
	requireNoProblems(t, p)

	p = chromium.Open(t, serve(t, Options{Socket: near.path}))
	waitFor(t, p, "four queues", "document.querySelectorAll('#rows tr').length === 4")
	waitFor(t, p, "both peers", shown("node 1 up")+".length === 2")
	portOne, portTwo := portOf(t, near.path, toOne), portOf(t, near.path, toTwo)
	require.NotEqual(t, portOne, portTwo)
	edges := []string{fmt.Sprintf("%d>port %d", toOne, portOne), fmt.Sprintf("%d>port %d", toTwo, portTwo)}
	ports := []string{fmt.Sprintf("port %d", portOne), fmt.Sprintf("port %d", portTwo)}
	if toOne > toTwo {
		slices.Reverse(edges)
		slices.Reverse(ports)
	}
	require.Equal(t, strings.Join(edges, " ")+" | "+strings.Join(ports, ",")+",link 0,peer 0 node 1,link 1,peer 1 node 1",
		graph(t, p))
	p.Screenshot(*screenshots, "web-fabric")

	require.NoError(t, two.Close())
	two.stop()
	waitFor(t, p, "one peer is down", shown("node 1 down")+".length === 1 && "+shown("node 1 up")+".length === 1")
	requireNoProblems(t, p)
}

// shown is an expression for the texts of the graph that are equal to a text.
func shown(text string) string {
	return fmt.Sprintf("[...document.querySelectorAll('#graph text')].filter((e) => e.textContent === %q)", text)
}
