package decodepage_test

import (
	"context"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"

	"github.com/nicless/nicless/tools/chromium"
	"github.com/nicless/nicless/tools/decodepage"
)

var screenshots = flag.String("screenshots", "", "write pictures of the page into this folder")

// refused is a completion of a refused access, as libmlx5 prints it.
const refused = "mlx5: cn10: got completion with error:\n00000000 00000000 00000000 00000000\n" +
	"00000000 00000000 00000000 00000000\n00000002 00000000 00000000 00000000\n" +
	"00000000 00008813 10012abe 0dd0c1d3\n"

var compiled = sync.OnceValues(func() (decodepage.Decoder, error) { return decodepage.Compile(context.Background()) })

// build writes the page to a file of a folder that has nothing else.
func build(t *testing.T, home string) (file string, html []byte) {
	t.Helper()
	d, err := compiled()
	require.NoError(t, err)
	html, err = d.Page(home)
	require.NoError(t, err)
	file = filepath.Join(t.TempDir(), "decode.html")
	require.NoError(t, os.WriteFile(file, html, 0o600))
	return file, html
}

// open opens the page, and waits until it decodes.
func open(t *testing.T) *chromium.Page {
	t.Helper()
	file, _ := build(t, "")
	p := chromium.Open(t, chromium.File(t, file))
	p.Do(chromedp.WaitEnabled(chromedp.CSS("#decode")))
	return p
}

func TestSameBytesTwice(t *testing.T) {
	t.Parallel()
	_, one := build(t, "index.html")
	again, err := decodepage.Compile(t.Context())
	require.NoError(t, err)
	two, err := again.Page("index.html")
	require.NoError(t, err)
	require.True(t, string(one) == string(two), "the page differs from build to build")
	require.Contains(t, string(one), `<a href="index.html">nicless</a>`)
	require.Less(t, len(one), 2<<20, "bytes; doc.go and docs/design/0083 say why it is small")
	t.Logf("the page has %d bytes, the decoder %d", len(one), len(again.Module))
}

func TestNoPage(t *testing.T) {
	for name, d := range map[string]decodepage.Decoder{
		"no WebAssembly":      {Module: []byte("<html>")},
		"the end of a script": {Module: []byte("\x00asm"), Support: []byte("'</SCRIPT>'")},
	} {
		_, err := d.Page("")
		require.ErrorContains(t, err, name)
	}
}

// The page explains what is pasted, from file:// and without any request but the one for itself.
func TestDecodesInABrowser(t *testing.T) {
	t.Parallel()
	p := open(t)
	p.Look(1100, 1000, false)
	p.Do(chromedp.SetValue(chromedp.CSS("#text"), refused), chromedp.Click(chromedp.CSS("#decode")))
	text := p.Text("#result")
	require.Contains(t, text, "syndrome 0x13: remote access error")
	require.Contains(t, text, "1. the rkey names no memory")
	require.Contains(t, p.Text("#result b"), "lines 2-5: CQE, as libmlx5 prints it")
	p.Screenshot(*screenshots, "decoder-light")
	p.Look(1100, 1000, true)
	p.Screenshot(*screenshots, "decoder-dark")
	require.NotEqual(t, "rgb(251, 251, 250)",
		chromium.Evaluate[string](p, "getComputedStyle(document.body).backgroundColor"), "dark pages are dark")
	p.Look(360, 740, false)
	p.RequireNoSideways()
	p.Screenshot(*screenshots, "decoder-narrow")
	require.Empty(t, p.Problems())
	require.Len(t, p.Requests(), 1)
}

// Each example on the page is understood.
func TestExamplesOfThePage(t *testing.T) {
	t.Parallel()
	p := open(t)
	n := chromium.Evaluate[int](p, "document.querySelectorAll('#examples button').length")
	require.Greater(t, n, 3)
	seen := map[string]bool{}
	for i := range n {
		p.Do(chromedp.Click(chromedp.CSS("#examples button:nth-of-type(" + string(rune('1'+i)) + ")")))
		text := p.Text("#result")
		require.Contains(t, text, "\n")
		require.NotContains(t, text, "no CQE")
		require.NotContains(t, text, "nothing is known")
		seen[text] = true
	}
	require.Len(t, seen, n, "different answers")
	require.Empty(t, p.Problems())
}

// HTML is text, in the answer and in the field, and so it is when it is pasted as rich text.
func TestHTMLIsNotExecuted(t *testing.T) {
	t.Parallel()
	p := open(t)
	for _, hostile := range []string{
		`<img src=x onerror=document.title='executed'>`,
		`<script>document.title='executed'</script>`,
		"mlx5: <img src=x onerror=document.title='executed'>: got completion with error:\n" +
			strings.SplitN(refused, "\n", 2)[1],
		`"'><svg onload=document.title='executed'>`,
	} {
		p.Do(chromedp.SetValue(chromedp.CSS("#text"), hostile), chromedp.Click(chromedp.CSS("#decode")))
		require.NotEmpty(t, p.Text("#result"))
		require.Zero(t, chromium.Evaluate[int](p, "document.querySelectorAll('#result :not(b)').length"))
	}
	require.NotContains(t, chromium.Value(p, chromedp.Title()), "executed")
	require.Empty(t, p.Problems())
	require.Len(t, p.Requests(), 1)

	// If a mistake let markup through, the policy would still refuse its script and its request.
	p.Do(chromedp.Evaluate[chromedp.Void](`document.getElementById("result").innerHTML =
		"<img src=x onerror=\"document.title='executed'\">"; undefined`))
	p.Do(chromedp.WaitReady(chromedp.CSS("#result img")))
	require.NotContains(t, chromium.Value(p, chromedp.Title()), "executed")
	require.Contains(t, strings.Join(p.Problems(), "\n"), "content security policy: img-src")
}

// Everything can be done with keys: the field has the focus, Ctrl+Enter decodes, and Tab reaches the answer.
func TestKeyboard(t *testing.T) {
	t.Parallel()
	p := open(t)
	focus := func() string { return chromium.Evaluate[string](p, "document.activeElement.id") }
	require.Equal(t, "text", focus())
	p.Do(chromedp.KeyEvent("IBV_WC_REM_ACCESS_ERR"), chromedp.KeyEvent(kb.Enter, chromedp.KeyModifiers(2)))
	require.Contains(t, p.Text("#result"), "syndrome 0x13: remote access error")
	p.Do(chromedp.KeyEvent(kb.Tab))
	require.Equal(t, "decode", focus())
	p.Do(chromedp.Evaluate[chromedp.Void](`document.getElementById("text").value = "key-acess"; undefined`),
		chromedp.KeyEvent(kb.Enter))
	require.Contains(t, p.Text("#result"), "the nearest names are key-access")
	p.Do(chromedp.KeyEvent(kb.Tab))
	require.Equal(t, "file", focus())
	for range 5 { // four examples
		p.Do(chromedp.KeyEvent(kb.Tab))
	}
	require.Equal(t, "result", focus())
	require.Empty(t, p.Problems())
}

// A file is read like pasted text, and one that is too large for a page is refused.
func TestFile(t *testing.T) {
	t.Parallel()
	p := open(t)
	name := filepath.Join(t.TempDir(), "job.log")
	require.NoError(t, os.WriteFile(name, []byte(refused), 0o600))
	p.Do(chromedp.SetUploadFiles(chromedp.CSS("#file"), []string{name}),
		chromedp.WaitReady(chromedp.CSS("#result b")))
	require.Contains(t, p.Text("#result"), "remote access error")

	// The page says that a long text takes a while.
	p.Do(chromedp.Evaluate[chromedp.Void](`var shown = [];
		new MutationObserver(() => shown.push(result.textContent)).observe(result, { childList: true }); undefined`))
	nothing := strings.Repeat("a line without any\n", 20_000)
	require.NoError(t, os.WriteFile(name, []byte(nothing+"IBV_WC_RNR_RETRY_EXC_ERR\n"), 0o600))
	p.Do(chromedp.SetUploadFiles(chromedp.CSS("#file"), []string{name}))
	_ = chromium.Value(p, chromedp.Poll[bool](`shown.some((text) => text.includes("syndrome 0x16"))`))
	require.Equal(t, "Decoding …", chromium.Evaluate[string](p, "shown[0]"))

	require.NoError(t, os.Truncate(name, 32<<20+1))
	p.Do(chromedp.SetUploadFiles(chromedp.CSS("#file"), []string{name}),
		chromedp.WaitNotPresent(chromedp.CSS("#result b")))
	require.Contains(t, p.Text("#result"), "The file has 33554433 bytes; the page reads at most 33554432.")
	require.Empty(t, p.Problems())
}
