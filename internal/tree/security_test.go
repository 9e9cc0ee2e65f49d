package tree

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

// docs/SECURITY.md says for each attack which test shows that the attack fails. These tests
// exist.
func TestSecurityPageNamesTests(t *testing.T) {
	atRoot(t)
	page, err := os.ReadFile("docs/SECURITY.md")
	require.NoError(t, err)
	there := make(map[string]bool)
	for _, dir := range []string{".", "engine", "engine/internal/*", "server", "internal/*", "verbs", "verbs/programs", "verbs/internal/*", "fabric", "fabric/*", "netdev", "netdev/names", "cmd/nicless", "field/*", "tools/*", "tools/internal/*"} {
		files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
		require.NoError(t, err)
		for _, file := range files {
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			for _, m := range regexp.MustCompile(`(?m)^func (Test\w+)\(`).FindAllSubmatch(text, -1) {
				there[string(m[1])] = true
			}
		}
	}
	named := regexp.MustCompile(`\bTest[A-Z]\w+`).FindAllString(string(page), -1)
	require.Greater(t, len(named), 40)
	for _, name := range named {
		require.True(t, there[name], "docs/SECURITY.md names %s, which does not exist", name)
	}
}
