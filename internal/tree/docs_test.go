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
	linkInText = regexp.MustCompile(`\]\(([^)#\s]+)`)
	fileInText = regexp.MustCompile("`([a-z][a-z0-9_]*(?:/[A-Za-z0-9_.-]+)+\\.(?:go|h|c|cu|s|sh))`")
	testInText = regexp.MustCompile(`\bTest[A-Z][A-Za-z]+`)
	testInCode = regexp.MustCompile(`(?m)^func (Test[A-Z][A-Za-z0-9]+)\(`)
)

// The files that pages link to or name exist, and so do the tests that pages give as proof.
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
			if !strings.Contains(m[1], "://") {
				assert.True(t, exists(filepath.Join(filepath.Dir(page), m[1])), "%s links to %s, which does not exist", page, m[1])
			}
		}
		for _, m := range fileInText.FindAllStringSubmatch(text, -1) {
			known := exists(m[1]) || exists("include/"+m[1]) || strings.HasPrefix(m[1], "infiniband/") // headers of rdma-core
			assert.True(t, known, "%s names %s, which does not exist", page, m[1])
		}
		for _, name := range testInText.FindAllString(text, -1) {
			assert.True(t, tests[name], "%s names %s, which is no test", page, name)
		}
	}
}
