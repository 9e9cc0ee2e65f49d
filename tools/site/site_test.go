package main

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/nicless/nicless/tools/decodepage"
)

// noDecoder takes the place of a decoder in tests that do not run it.
var noDecoder = decodepage.Decoder{Module: []byte("\x00asm")}

// real is the site of this tree, without its decoder.
var real = sync.OnceValues(func() (*site, error) { return build(os.DirFS("../.."), noDecoder) })

// All links and anchors inside the site lead somewhere, nothing is loaded from outside, and each page of the
// tree is in the site.
func TestLinks(t *testing.T) {
	s, err := real()
	require.NoError(t, err)
	wrong, outside, err := check(s.files)
	require.NoError(t, err)
	require.Empty(t, wrong)
	t.Logf("%d addresses outside the site", len(outside))
	require.Contains(t, strings.Join(outside, "\n"), "https://github.com/google/rdma-unit-test")
	for _, name := range []string{"index.html", "docs/VERBS.html", "docs/guide/index.html", "docs/design/index.html",
		"docs/design/0083-site.html", "docs/reference/conformance.html", "docs/picture.svg", "examples/index.html",
		"examples/write/main.go.html", "decoder.html", "search.html"} {
		require.Contains(t, s.files, name)
	}
	require.Contains(t, string(s.files["docs/design/index.html"]), "0083 Pages for browsers", "pages by their titles")
	require.Less(t, len(s.files["search.html"]), 400<<10, "bytes of the search")
}

// The same tree gives the same bytes.
func TestSameSiteTwice(t *testing.T) {
	one, err := real()
	require.NoError(t, err)
	two, err := build(os.DirFS("../.."), noDecoder)
	require.NoError(t, err)
	require.Len(t, two.files, len(one.files))
	for name, b := range one.files {
		require.True(t, string(b) == string(two.files[name]), name)
	}
}

// check finds each kind of wrong address.
func TestCheck(t *testing.T) {
	wrong, outside, err := check(map[string][]byte{
		"a.html": []byte(`<a href="b/c.html#one">ok</a><a href="#two">no</a><a href="none.html">no</a>
			<a href="b/c.html#none">no</a><img src="https://example.com/x.png"><a href="https://example.com/">ok</a>
			<a href="javascript:alert(1)">no</a><a href="/a.html">no</a><a href="%zz">no</a>`),
		"b/c.html": []byte(`<h1 id="one">1</h1><p id="one"></p><a href="../a.html">ok</a><img src="../p.svg">`),
		"p.svg":    nil,
	})
	require.NoError(t, err)
	require.Equal(t, []string{
		`b/c.html has two elements #one`,
		`a.html leads to "#two"; a.html has no #two`,
		`a.html leads to "none.html", which is not in the site`,
		`a.html leads to "b/c.html#none"; b/c.html has no #none`,
		`a.html loads https://example.com/x.png, which is outside the site`,
		`a.html links to "javascript:alert(1)", which is no address of the web`,
		`a.html leads to "/a.html", which is not in the site`,
		`a.html: parse "%zz": invalid URL escape "%zz"`,
	}, wrong)
	require.Equal(t, []string{"https://example.com/", "https://example.com/x.png", "javascript:alert(1)"}, outside)
}

func file(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }

func TestPages(t *testing.T) {
	s, err := build(fstest.MapFS{
		"README.md": file("# nicless\n\n## A `b_c` d?\n\n## A b_c d\n\n[two](docs/TWO.md#a-b-1) [dir](code) " +
			"[own](#a-b_c-d) [src](code/x.go) ![p](docs/p.svg) <https://example.com/>\n\n<!-- a note -->\n"),
		"docs/TWO.md":                   file("# Two\n\n## A b\n\n## A b\n\n[back](../README.md) & `<b>`\n"),
		"docs/guide/README.md":          file("# Guide\n\n| [two](../TWO.md) |\n"),
		"docs/p.svg":                    file("<svg/>"),
		"docs/reference/conformance.md": file("# Conformance\n"),
		"examples/README.md":            file("# Examples\n"),
		"code/x.go":                     file("package x // <script>\n"),
		"code/below/y.go":               file("package y\n"),
		"testdata/no.md":                file("no heading"),
	}, noDecoder)
	require.NoError(t, err)
	first := string(s.files["index.html"])
	for _, want := range []string{`<h2 id="a-b_c-d">A <code>b_c</code> d?`, `<h2 id="a-b_c-d-1">`,
		`<a href="docs/TWO.html#a-b-1">`, `<a href="code/index.html">`, `<a href="#a-b_c-d">own</a>`,
		`<a href="code/x.go.html">`, `src="docs/p.svg"`, `<a href="https://example.com/">`,
		`<title>nicless</title>`} {
		require.Contains(t, first, want)
	}
	require.Contains(t, string(s.files["docs/TWO.html"]), `<a href="../index.html">back</a> &amp; <code>&lt;b&gt;</code>`)
	require.Contains(t, string(s.files["docs/TWO.html"]), `<a href="TWO.html" aria-current="page">Two</a>`)
	require.Contains(t, string(s.files["code/x.go.html"]), "package x // &lt;script&gt;")
	require.NotContains(t, s.files, "testdata/no.html")
	require.NotContains(t, s.files, "code/below/y.go.html")
	wrong, _, err := check(s.files)
	require.NoError(t, err)
	require.Empty(t, wrong)
}

// A mistake in a page ends the making of the site, and is named.
func TestWrongPages(t *testing.T) {
	for text, want := range map[string]string{
		"# A\n\n[b](none.md)":        `README.md: link "none.md": the tree has no none.md`,
		"# A\n\n[b](../../out.md)":   "is outside the tree",
		"# A\n\n<script>1</script>":  `README.md: "<script>1</script>" is HTML`,
		"# A\n\na <b>c</b>":          `README.md: "<b>" is HTML`,
		"no heading":                 "README.md has no heading",
		"# A\n\n[b](x.bin)":          "x.bin is no text",
		"# A\n\n[b](<:// wrong.md>)": "README.md: link",
	} {
		_, err := build(fstest.MapFS{"README.md": file(text), "x.bin": file("\xff\xfe")}, noDecoder)
		require.ErrorContains(t, err, want, text)
	}
	_, err := build(fstest.MapFS{}, noDecoder)
	require.ErrorContains(t, err, "no README.md")
}

func TestWordsOf(t *testing.T) {
	require.Equal(t, []string{"access", "err", "ibv", "ibv_wc_rem_access_err", "mlx5", "qp", "rem", "wc"},
		wordsOf("IBV_WC_REM_ACCESS_ERR: qp 0x012abe, 00008813 a _mlx5_ 42 "+strings.Repeat("x", 33)))
}

// A site replaces an older site, and nothing else.
func TestWrite(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "out")
	require.NoError(t, (&site{files: map[string][]byte{marker: nil, "a/b.html": []byte("1")}}).write(dir))
	s := &site{files: map[string][]byte{marker: nil, "c.html": []byte("2")}}
	require.NoError(t, s.write(dir))
	require.NoFileExists(t, filepath.Join(dir, "a/b.html"))
	require.FileExists(t, filepath.Join(dir, "c.html"))
	require.NoError(t, os.Remove(filepath.Join(dir, marker)))
	require.ErrorContains(t, s.write(dir), "has 1 files and is no site")
	require.FileExists(t, filepath.Join(dir, "c.html"))
}
