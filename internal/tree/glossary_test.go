package tree

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Every word of the glossary is used in the file that defines it. The glossary is not
// longer than a page.
func TestGlossary(t *testing.T) {
	atRoot(t)
	page, err := os.ReadFile("docs/GLOSSARY.md")
	require.NoError(t, err)
	require.LessOrEqual(t, strings.Count(string(page), "\n"), 64, "at most a page")
	rows := regexp.MustCompile(`(?m)^\| ([^|]+) \| [^|]+ \| \[(.+)\]\(\.\./(.+)\) \|$`).FindAllStringSubmatch(string(page), -1)
	require.Equal(t, len(rows)+2, strings.Count(string(page), "\n|"), "every row has a word, a meaning and a file")
	var words []string
	for _, row := range rows {
		word, file := row[1], row[2]
		require.Equal(t, file, row[3], "the link of %q", word)
		text, err := os.ReadFile(file)
		require.NoError(t, err, "the file that defines %q", word)
		spaces := strings.Join(strings.Fields(strings.ReplaceAll(strings.ToLower(string(text)), "//", " ")), " ")
		require.Regexp(t, `\b`+regexp.QuoteMeta(word), spaces, "%s uses the word %q", file, word)
		words = append(words, word)
	}
	require.True(t, slices.IsSorted(words), "words are in order")
}
