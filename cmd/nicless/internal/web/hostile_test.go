//go:build linux && (amd64 || arm64)

package web

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/nicless/nicless"
	"github.com/nicless/nicless/cmd/nicless/internal/enginetest"
	"github.com/nicless/nicless/fabric"
	"github.com/nicless/nicless/fabric/links"
	"github.com/nicless/nicless/state"
	"github.com/nicless/nicless/tools/chromium"
	"github.com/stretchr/testify/require"
)

// hostile is a name that would run a script in a page, and change the colours of a terminal.
const hostile = "\x1b[31m<img src=x onerror=document.title='run'><script>document.title='run'</script>\"'&lt;\u202e"

// All texts that an engine passes on are shown as they are, and none is HTML: names of clients, reasons,
// links, peers, and the device's own.
func TestBrowserHostileNames(t *testing.T) {
	s := manyQueues(2)
	s.Device.Name = hostile
	s.Device.Errors = []state.Error{{Time: time.Unix(1e9, 0), Code: hostile, Queue: 1, Client: hostile, Text: hostile}}
	s.Threads[0].Stuck = hostile
	for i := range s.Clients {
		s.Clients[i].Program, s.Clients[i].Name = hostile, hostile
	}
	for i := range s.Queues {
		s.Queues[i].Transport, s.Queues[i].State, s.Queues[i].Wait = hostile, hostile, hostile
	}
	path := fakeEngine(t, s, []links.Report{{Link: hostile, Peers: []fabric.Peer{{Name: hostile}}}})
	p := chromium.Open(t, serve(t, Options{Socket: path}))
	waitFor(t, p, "the queues", "document.querySelectorAll('#rows tr').length === 2")
	p.Click("button[data-queue='1']")
	waitFor(t, p, "the selected queue", "document.querySelector('#attributes').checkVisibility()")
	for _, at := range []string{"#engine", "#rows", "#error-list", "#threads", "#attributes"} {
		require.Contains(t, p.Text(chromedp.CSS(at)), hostile, at)
	}
	require.Contains(t, p.Text("#graph"), hostile[:20], "the graph has the beginning")
	require.Zero(t, chromium.Evaluate[int](p, "document.images.length"))
	require.Equal(t, 1, chromium.Evaluate[int](p, "document.scripts.length"))
	require.Equal(t, "nicless", chromium.Evaluate[string](p, "document.title"))
	requireNoProblems(t, p)
}

// The policy would stop what the page itself did wrong: without this, the test above could not fail by it.
func TestBrowserPolicyStopsScripts(t *testing.T) {
	p := chromium.Open(t, serve(t, Options{Socket: filepath.Join(t.TempDir(), "none")}))
	p.Do(chromedp.Evaluate[chromedp.Void](fmt.Sprintf("document.querySelector('#total').innerHTML = %q",
		"<img src='data:,' onerror=\"document.title='run'\">")))
	waitFor(t, p, "the image has failed", "document.images[0].complete")
	require.Equal(t, "nicless", chromium.Evaluate[string](p, "document.title"))
	found := false
	for _, problem := range p.Problems() {
		found = found || len(problem) > 24 && problem[:24] == "content security policy:"
	}
	require.True(t, found, "%q", p.Problems())
}

// The page says so when the engine has gone, keeps what it has, and goes on with another one.
func TestBrowserEngineComesBack(t *testing.T) {
	path := filepath.Join(t.TempDir(), "e")
	stop := enginetest.Run(t, path, nicless.Config{})
	p := chromium.Open(t, serve(t, Options{Socket: path}))
	waitFor(t, p, "the engine", "document.querySelector('#total').textContent.includes('0 clients')")
	require.Equal(t, "", p.Text("#problem"))
	stop()
	waitFor(t, p, "what has happened", "document.querySelector('#problem').textContent.startsWith('The engine does not answer')")
	require.Contains(t, p.Text("#engine"), path, "what was known")
	defer enginetest.Run(t, path, nicless.Config{})()
	waitFor(t, p, "another engine", "document.querySelector('#problem').hidden")
	requireNoProblems(t, p)
}

// A queue is joined to a link only if that is certain.
func TestBrowserGraphOfLinks(t *testing.T) {
	s := manyQueues(3)
	s.Queues[0].Linked, s.Queues[0].Port = true, 5 // a pool has made its port anew
	s.Queues[1].Linked, s.Queues[1].Port = true, 2
	one := []links.Report{{Link: "pool p", Peers: []fabric.Peer{{Name: "node 1", Up: true}, {Name: "node 2"}}}}
	two := append(one, links.Report{Link: "roce"})
	for name, c := range map[string]struct {
		links []links.Report
		want  string
	}{
		"one link":  {one, "1>link 0 2>link 0 | link 0,peer 0 node 1,peer 0 node 2"},
		"two links": {two, "1>port 5 2>port 2 | port 5,port 2,link 0,peer 0 node 1,peer 0 node 2,link 1"},
		"no answer": {nil, "1>port 5 2>port 2 | port 5,port 2"},
	} {
		t.Run(name, func(t *testing.T) {
			p := chromium.Open(t, serve(t, Options{Socket: fakeEngine(t, s, c.links)}))
			waitFor(t, p, "a frame", "document.querySelectorAll('#rows tr').length === 3")
			require.Equal(t, c.want, graph(t, p))
			requireNoProblems(t, p)
		})
	}
}

// Events belong to a WQE by their fields, also where the index wraps; index 1 is not 10.
func TestBrowserEventsOfAWQE(t *testing.T) {
	p := chromium.Open(t, serve(t, Options{Socket: filepath.Join(t.TempDir(), "none")}))
	p.Do(chromedp.Evaluate[chromedp.Void](`import("./trace.js").then(({ has }) => { window.has = has; }); undefined`))
	waitFor(t, p, "the module", "window.has !== undefined")
	for expression, want := range map[string]bool{
		"has({ kind: 'cqe', queue: 7, index: 1, count: 1, text: 'wqe 1' }, 7, 1)":     true,
		"has({ kind: 'cqe', queue: 7, index: 10, count: 1, text: 'wqe 10' }, 7, 1)":   false,
		"has({ kind: 'cqe', queue: 8, index: 1, count: 1, text: 'wqe 1' }, 7, 1)":     false,
		"has({ kind: 'cqe', queue: 7, index: 1, count: 0, text: 'a receive' }, 7, 1)": false,
		"has({ kind: 'fetch', queue: 7, index: 65535, count: 3 }, 7, 1)":              true,
		"has({ kind: 'fetch', queue: 7, index: 65535, count: 2 }, 7, 1)":              false,
	} {
		require.Equal(t, want, chromium.Evaluate[bool](p, expression), expression)
	}
}
