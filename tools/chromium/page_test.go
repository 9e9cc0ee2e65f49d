package chromium_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/nicless/nicless/tools/chromium"
)

func write(t *testing.T, html string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "page with a blank.html")
	require.NoError(t, os.WriteFile(name, []byte("<!doctype html><meta charset=utf-8>"+html), 0o600))
	return chromium.File(t, name)
}

// Each kind of problem is seen: without this, a test that requires none could not fail.
func TestProblems(t *testing.T) {
	for name, c := range map[string]struct{ html, want string }{
		"exception": {`<script>null.field</script>`, "exception: "},
		"console":   {`<script>console.error("one", 2)</script>`, `console: error: "one"`},
		"policy": {`<meta http-equiv="Content-Security-Policy" content="script-src 'none'"><script>1</script>`,
			"content security policy: script-src"},
		"request": {`<img src="missing.png">`, "request failed: net::ERR_FILE_NOT_FOUND: file://"},
		"dialog":  {`<script>alert("hello")</script>`, "dialog: hello"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := chromium.Open(t, write(t, c.html))
			require.Contains(t, strings.Join(p.Problems(), "\n"), c.want)
		})
	}
}

func TestPage(t *testing.T) {
	t.Parallel()
	address := write(t, `<p id=a>one</p><a id=b href="#c" onclick="document.title='two'">link</a>
		<style>p { width: 500px } @media (prefers-color-scheme: dark) { p { width: 100px } }</style>`)
	p := chromium.Open(t, address)
	require.Equal(t, "one", p.Text("#a"))
	p.Do(chromedp.Click(chromedp.CSS("#b")))
	require.Equal(t, "two", chromium.Evaluate[string](p, "document.title"))
	require.Empty(t, p.Problems())
	require.Equal(t, []string{address}, p.Requests())

	p.Look(360, 640, true)
	p.RequireNoSideways()
	require.Equal(t, 360, chromium.Evaluate[int](p, "innerWidth"))
	p.Look(360, 640, false)
	require.Greater(t, chromium.Evaluate[int](p, "document.documentElement.scrollWidth"), 360)
	dir := filepath.Join(t.TempDir(), "shots")
	p.Screenshot("", "none")
	p.Screenshot(dir, "page")
	png, err := os.ReadFile(filepath.Join(dir, "page.png"))
	require.NoError(t, err)
	require.Equal(t, "\x89PNG", string(png[:4]))
}
