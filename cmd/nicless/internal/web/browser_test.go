//go:build linux && (amd64 || arm64)

package web

import (
	"flag"
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/nicless/nicless"
	"github.com/nicless/nicless/cmd/nicless/internal/enginetest"
	"github.com/nicless/nicless/internal/await"
	"github.com/nicless/nicless/tools/chromium"
	"github.com/stretchr/testify/require"
)

var screenshots = flag.String("screenshots", "", "write pictures of pages into this folder")

// waitFor waits until an expression of JavaScript is true in the page.
func waitFor(t *testing.T, p *chromium.Page, what, expression string) {
	t.Helper()
	await.Until(t, what, func() bool { return chromium.Evaluate[bool](p, expression) })
}

// requireNoProblems passes over streams that the page has closed because its view has changed, over what is
// expected, and over nothing else.
func requireNoProblems(t *testing.T, p *chromium.Page, expected ...string) {
	t.Helper()
	for _, problem := range p.Problems() {
		if !slices.Contains(expected, problem) {
			require.Regexp(t, `^request failed: net::ERR_ABORTED: http://127\.0\.0\.1:[0-9]+/events\?`, problem)
		}
	}
}

// The page shows an engine that works, down to the fields of a WQE and the events of its life.
func TestBrowserPage(t *testing.T) {
	path := serveEngine(t)
	queue := writer(t, path)
	p := chromium.Open(t, serve(t, Options{Socket: path}))
	p.Look(1280, 900, false)
	waitFor(t, p, "two queues", "document.querySelectorAll('#rows tr').length === 2")
	require.Contains(t, p.Text("#total"), "1 clients, 2 queues")
	waitFor(t, p, "the client in the graph", "document.querySelectorAll('#graph rect').length === 3")

	p.Click(chromedp.CSS(fmt.Sprintf("button[data-queue='%d']", queue)))
	waitFor(t, p, "latencies", "document.querySelector('#heat-text').textContent.startsWith('newest sample')")
	require.Equal(t, fmt.Sprintf("Queue 0x%06x", queue), p.Text("#queue-title"))
	p.Do(chromedp.SendKeys(chromedp.CSS("#ring-cells"), "\r"))
	waitFor(t, p, "the decoded WQE", "document.querySelector('#entry').textContent.includes('RDMA_WRITE')")
	if *screenshots != "" {
		waitFor(t, p, "some rates and latencies to look at", "performance.now() > 30e3")
	}
	p.Screenshot(*screenshots, "web-queue")

	p.Do(chromedp.Click(chromedp.CSS("#take")))
	waitFor(t, p, "events", "document.querySelectorAll('#events li').length > 3")
	p.Do(chromedp.Evaluate[chromedp.Void]("document.querySelector('#wqe').selectedIndex = 1; " +
		"document.querySelector('#wqe').dispatchEvent(new Event('change'))"))
	waitFor(t, p, "the WQE's completion", "document.querySelector('#events').textContent.includes('completion')")
	p.Screenshot(*screenshots, "web-trace")

	require.Equal(t, "false", chromium.Evaluate[string](p, "String(document.querySelector('#rules-form').checkVisibility())"))
	p.Look(360, 740, true)
	waitFor(t, p, "another frame", "document.querySelectorAll('#rows tr').length === 2")
	p.RequireNoSideways()
	p.Screenshot(*screenshots, "web-narrow")
	requireNoProblems(t, p)
}

func TestBrowserDecoder(t *testing.T) {
	p := chromium.Open(t, serve(t, Options{Socket: serveEngine(t)}))
	p.Do(chromedp.SetValue(chromedp.CSS("#text"), "IBV_WC_REM_ACCESS_ERR"), chromedp.Click(chromedp.CSS("#decode")))
	waitFor(t, p, "the answer", "document.querySelector('#result').textContent.includes('remote access error')")
	p.Do(chromedp.SetValue(chromedp.CSS("#text"), "<img src=x onerror=alert(1)>"), chromedp.Click(chromedp.CSS("#decode")))
	waitFor(t, p, "another answer", "!document.querySelector('#result').textContent.includes('remote access error')")
	require.Zero(t, chromium.Evaluate[int](p, "document.images.length"))
	requireNoProblems(t, p)
}

// With control, rules of faults can be switched on and off. The token is asked for once.
func TestBrowserFaults(t *testing.T) {
	path := serveEngine(t)
	const token = "0123456789abcdef"
	p := chromium.Open(t, serve(t, Options{Socket: path, Token: token, Control: true})+"?token="+token)
	waitFor(t, p, "the form", "document.querySelector('#rules-form').checkVisibility()")
	require.NotContains(t, chromium.Evaluate[string](p, "location.href"), token)
	p.Do(chromedp.SetValue(chromedp.CSS("#rules"), "nonsense"), chromedp.Click(chromedp.CSS("#rules-on")))
	waitFor(t, p, "what is wrong", "document.querySelector('#rules-text').textContent.includes('rules')")
	p.Do(chromedp.SetValue(chromedp.CSS("#rules"), rules), chromedp.Click(chromedp.CSS("#rules-on")))
	waitFor(t, p, "the rules", "document.querySelector('#rules-text').textContent === 'The rules are on.'")
	require.Contains(t, p.Text("#acted"), "acted 0 times")
	waitFor(t, p, "the engine's count", "document.querySelector('#total').textContent.includes(' 1 rules of faults')")
	p.Do(chromedp.Click(chromedp.CSS("#rules-off")))
	waitFor(t, p, "no rules", "document.querySelector('#rules-text').textContent === 'No rules are on.'")
	waitFor(t, p, "the engine's count", "document.querySelector('#total').textContent.includes(' 0 rules of faults')")
	// The answer to wrong rules has a status that the browser reports, too.
	requireNoProblems(t, p, "network: error: Failed to load resource: "+
		"the server responded with a status of 422 (Unprocessable Entity)")
}

// Rules end with the engine that obeys them: the page says so, and can switch them on in another one.
func TestBrowserFaultsOfAnEngineThatEnds(t *testing.T) {
	path := filepath.Join(t.TempDir(), "e")
	stop := enginetest.Run(t, path, nicless.Config{})
	const token = "0123456789abcdef"
	p := chromium.Open(t, serve(t, Options{Socket: path, Token: token, Control: true})+"?token="+token)
	waitFor(t, p, "the form", "document.querySelector('#rules-form').checkVisibility()")
	set := func() {
		p.Do(chromedp.SetValue(chromedp.CSS("#rules"), rules), chromedp.Click(chromedp.CSS("#rules-on")))
		waitFor(t, p, "the rules", "document.querySelector('#rules-text').textContent === 'The rules are on.'")
		waitFor(t, p, "the engine's count", "document.querySelector('#total').textContent.includes(' 1 rules of faults')")
	}
	set()
	stop()
	waitFor(t, p, "the engine has gone", "!document.querySelector('#problem').hidden")
	waitFor(t, p, "no rules", "document.querySelector('#rules-text').textContent === 'No rules are on.'")
	defer enginetest.Run(t, path, nicless.Config{})()
	waitFor(t, p, "another engine", "document.querySelector('#problem').hidden")
	waitFor(t, p, "the engine's count", "document.querySelector('#total').textContent.includes(' 0 rules of faults')")
	set()
	requireNoProblems(t, p)
}

// Two servers at two ports of a host, in one browser: each keeps its token, although browsers send the
// cookies of a host to all its ports.
func TestBrowserTwoServers(t *testing.T) {
	path := serveEngine(t)
	var at, first []string
	for _, token := range []string{"0123456789abcdef", "fedcba9876543210"} {
		address := serve(t, Options{Socket: path, Token: token})
		at, first = append(at, address), append(first, address+"?token="+token)
	}
	p := chromium.Open(t, first[0])
	for _, address := range []string{first[1], at[0], at[1], at[0]} {
		p.Do(chromedp.Navigate(address))
		waitFor(t, p, "the engine", "document.querySelector('#total').textContent.includes('0 clients')")
		p.Do(chromedp.SetValue(chromedp.CSS("#text"), "IBV_WC_REM_ACCESS_ERR"),
			chromedp.Click(chromedp.CSS("#decode")))
		waitFor(t, p, "the answer", "document.querySelector('#result').textContent.includes('remote access error')")
	}
	requireNoProblems(t, p)
}

const rules = "rules:\n  - match: {opcode: SEND, nth: 3}\n    stall: 5ms\n"
