package main

import (
	"context"
	"flag"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"

	"github.com/nicless/nicless/tools/chromium"
	"github.com/nicless/nicless/tools/decodepage"
)

var screenshots = flag.String("screenshots", "", "write pictures of pages into this folder")

// whole is the site of this tree with its decoder.
var whole = sync.OnceValues(func() (*site, error) {
	d, err := decodepage.Compile(context.Background())
	if err != nil {
		return nil, err
	}
	return build(os.DirFS("../.."), d)
})

// folderOfSite writes the site into a folder, and returns it.
func folderOfSite(t *testing.T) string {
	t.Helper()
	s, err := whole()
	require.NoError(t, err)
	dir := filepath.Join(t.TempDir(), "a site")
	require.NoError(t, s.write(dir))
	return dir
}

// open opens a file of the site from file://.
func open(t *testing.T, dir, file string) *chromium.Page {
	t.Helper()
	return chromium.Open(t, chromium.File(t, filepath.Join(dir, file)))
}

// A reader begins at the first page and follows links; the policy refuses nothing, and nothing is missing.
func TestFirstPageInABrowser(t *testing.T) {
	t.Parallel()
	p := open(t, folderOfSite(t), "index.html")
	require.Equal(t, "nicless", chromium.Value(p, chromedp.Title()))
	require.Zero(t, chromium.Evaluate[int](p, "[...document.images].filter((i) => !i.naturalWidth).length"),
		"pictures that are not shown")
	require.Greater(t, chromium.Evaluate[int](p, "document.images.length"), 2)
	p.Look(1280, 900, false)
	p.Screenshot(*screenshots, "site-light")
	p.Look(1280, 900, true)
	p.Screenshot(*screenshots, "site-dark")

	p.Do(chromedp.Click(chromedp.CSS(`main a[href="docs/VERBS.html"]`)))
	p.Do(chromedp.WaitReady(chromedp.CSS("#quick-start")))
	require.Contains(t, p.Text("h1"), "Verbs programs")
	require.Contains(t, p.Text(`#pages a[aria-current="page"]`), "Verbs programs")
	p.Do(chromedp.Click(chromedp.CSS(`header a[href$="conformance.html"]`)))
	p.Do(chromedp.WaitReady(chromedp.CSS("#conformance")))
	p.Do(chromedp.Click(chromedp.CSS(`main a[href="../VERBS.html#asynchronous-events"]`)))
	p.Do(chromedp.WaitReady(chromedp.CSS("#asynchronous-events:target")))
	top := `document.querySelector("#asynchronous-events").getBoundingClientRect().top`
	require.Less(t, chromium.Evaluate[float64](p, top), 100.0, "the section is at the top of the window")
	p.Screenshot(*screenshots, "site-section")
	require.Empty(t, p.Problems())
	for _, r := range p.Requests() {
		require.Regexp(t, "^(file|data):", r)
	}
}

// Every kind of page fits into a narrow window.
func TestNarrowPages(t *testing.T) {
	t.Parallel()
	dir := folderOfSite(t)
	p := open(t, dir, "index.html")
	for _, name := range []string{"index", "docs/VERBS", "docs/OPCODES", "docs/CONTROL", "docs/design/index",
		"examples/write/main.go", "search", "CHANGELOG", "docs/reference/conformance"} {
		p.Do(chromedp.Navigate(chromium.File(t, filepath.Join(dir, name+".html"))))
		p.Look(360, 740, false)
		t.Log(name)
		p.RequireNoSideways()
		if name == "docs/reference/conformance" {
			p.Screenshot(*screenshots, "site-narrow")
		}
	}
	require.Empty(t, p.Problems())
}

// The search of any page leads to the page that searches, and from there to sections.
func TestSearch(t *testing.T) {
	t.Parallel()
	p := open(t, folderOfSite(t), "docs/guide/index.html")
	p.Do(chromedp.SendKeys(chromedp.CSS("header input"), "asynchronous event"+kb.Enter))
	p.Do(chromedp.WaitReady(chromedp.CSS("#results a")))
	require.Equal(t, "Asynchronous events", p.Text("#results a"))
	p.Look(1280, 900, false)
	p.Screenshot(*screenshots, "site-search")
	const hostile = `<img src=x onerror=document.title='executed'>`
	search := func(words string) {
		p.Do(chromedp.SetValue(chromedp.CSS("#query"), words), chromedp.SendKeys(chromedp.CSS("#query"), kb.Enter))
	}
	search(hostile)
	require.Contains(t, p.Text("#count"), "0 sections")
	search("asynchronous event")
	p.Do(chromedp.Click(chromedp.CSS("#results a")))
	p.Do(chromedp.WaitReady(chromedp.CSS("#asynchronous-events:target")))
	require.Empty(t, p.Problems())
}

// The decoder is part of the site, and leads back to it.
func TestDecoderOfTheSite(t *testing.T) {
	t.Parallel()
	p := open(t, folderOfSite(t), "decoder.html")
	p.Do(chromedp.WaitEnabled(chromedp.CSS("#decode")), chromedp.SetValue(chromedp.CSS("#text"), "IBV_WC_REM_ACCESS_ERR"),
		chromedp.Click(chromedp.CSS("#decode")))
	require.Contains(t, p.Text("#result"), "remote access error")
	p.Do(chromedp.Click(chromedp.CSS(".home a")), chromedp.WaitReady(chromedp.CSS("#pages")))
	require.Empty(t, p.Problems())
}
