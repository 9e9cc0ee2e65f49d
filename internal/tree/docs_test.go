package tree

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var (
	linkInText  = regexp.MustCompile(`\]\(([^)#\s]*)(?:#([^)\s]+))?\)`)
	fileInText  = regexp.MustCompile("`([a-z][a-z0-9_]*(?:/[A-Za-z0-9_.-]+)+\\.(?:go|h|c|cu|s|sh))`")
	testInText  = regexp.MustCompile(`\bTest[A-Z][A-Za-z]+`)
	fenceInText = regexp.MustCompile("(?ms)^```.*?^```")
	heading     = regexp.MustCompile(`(?m)^#+ (.*)$`)
	notInAnchor = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
	testInCode  = regexp.MustCompile(`(?m)^func (Test[A-Z][A-Za-z0-9]+)\(`)
)

// anchors returns the names by which links reach the headings of a page, as GitHub makes them.
func anchors(t *testing.T, page string) map[string]bool {
	t.Helper()
	b, err := os.ReadFile(page)
	require.NoError(t, err)
	all := map[string]bool{}
	for _, m := range heading.FindAllStringSubmatch(fenceInText.ReplaceAllString(string(b), ""), -1) {
		all[strings.ReplaceAll(notInAnchor.ReplaceAllString(strings.ToLower(m[1]), ""), " ", "-")] = true
	}
	return all
}

// The first page is short, shows nothing that is not there, and names the two commands that do everything on
// a fresh machine, which CI runs.
func TestFirstPage(t *testing.T) {
	atRoot(t)
	b, err := os.ReadFile("README.md")
	require.NoError(t, err)
	text := string(b)
	require.LessOrEqual(t, len(strings.Fields(text)), 900, "words; what is more belongs into docs/guide")
	for stage, command := range map[string]string{"release": "go run ./cmd/nicless demo", "quick": "go test ./..."} {
		require.Regexp(t, `(?m)^    `+regexp.QuoteMeta(command)+` `, text)
		steps, err := os.ReadFile(filepath.Join(".ci/stages", stage))
		require.NoError(t, err)
		require.Regexp(t, `(?m)^step .*the README's command" `+regexp.QuoteMeta(command)+`$`, string(steps))
	}
	require.Contains(t, text, "](docs/picture.svg)")
	picture, err := os.ReadFile("docs/picture.svg")
	require.NoError(t, err)
	require.Contains(t, string(picture), "prefers-color-scheme:dark", "the picture can be read on a dark page")
}

// The index of docs/guide lists its pages.
func TestGuideListsItsPages(t *testing.T) {
	atRoot(t)
	index, err := os.ReadFile("docs/guide/README.md")
	require.NoError(t, err)
	pages, err := filepath.Glob("docs/guide/*.md")
	require.NoError(t, err)
	require.Greater(t, len(pages), 10)
	for _, page := range pages {
		if name := filepath.Base(page); name != "README.md" {
			assert.Contains(t, string(index), "| ["+name+"]("+name+") |")
		}
	}
}

// The files and headings that pages link to exist, and so do the files that they name, and the tests that
// they give as proof.
func TestDocsNameWhatExists(t *testing.T) {
	atRoot(t)
	var pages []string
	tests := map[string]bool{}
	require.NoError(t, filepath.WalkDir(".", func(path string, d os.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == ".git" || d.Name() == "testdata"):
			return filepath.SkipDir
		case strings.HasSuffix(path, ".md"):
			pages = append(pages, path)
		case strings.HasSuffix(path, "_test.go"):
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			for _, m := range testInCode.FindAllSubmatch(b, -1) {
				tests[string(m[1])] = true
			}
		}
		return nil
	}))
	require.Contains(t, pages, "docs/ORDERING.md")
	exists := func(path string) bool {
		_, err := os.Stat(path)
		return err == nil
	}
	for _, page := range pages {
		b, err := os.ReadFile(page)
		require.NoError(t, err)
		text := string(b)
		for _, m := range linkInText.FindAllStringSubmatch(text, -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			to := page
			if m[1] != "" {
				to = filepath.Join(filepath.Dir(page), m[1])
			}
			if assert.True(t, exists(to), "%s links to %s, which does not exist", page, m[1]) && m[2] != "" {
				assert.True(t, anchors(t, to)[m[2]], "%s links to %s, which has no heading #%s", page, to, m[2])
			}
		}
		for _, m := range fileInText.FindAllStringSubmatch(text, -1) {
			// headers of rdma-core
			known := exists(m[1]) || exists("include/"+m[1]) || strings.HasPrefix(m[1], "infiniband/")
			assert.True(t, known, "%s names %s, which does not exist", page, m[1])
		}
		for _, name := range testInText.FindAllString(text, -1) {
			assert.True(t, tests[name], "%s names %s, which is no test", page, name)
		}
	}
}
