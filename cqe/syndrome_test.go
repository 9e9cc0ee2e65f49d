package cqe

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The table of the page about explanations is that of this package.
func TestSyndromesOfThePage(t *testing.T) {
	page, err := os.ReadFile("../docs/EXPLANATIONS.md")
	require.NoError(t, err)
	rows := 0
	for s, known := range syndromes {
		if known.text == "" {
			continue
		}
		rows++
		text := strings.TrimSuffix(known.text, " error")
		require.Contains(t, string(page), fmt.Sprintf("\n| 0x%02x | %s | %d `IBV_WC_%v` |\n", s, text, known.status, known.status))
	}
	require.Equal(t, rows, strings.Count(string(page), " `IBV_WC_"), "rows of the page")
}
