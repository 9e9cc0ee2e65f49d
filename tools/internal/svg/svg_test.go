package svg

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTicks(t *testing.T) {
	require.Equal(t, []float64{0, 200, 400, 600, 800, 1000}, Ticks(0, 1000))
	require.InDeltaSlice(t, []float64{0.2, 0.25, 0.3, 0.35, 0.4}, Ticks(0.2, 0.4), 1e-9)
}

// Strings are escaped, and the picture is as high as what is in it.
func TestDrawing(t *testing.T) {
	var d Drawing
	d.Title("a < b")
	d.Add(`<circle cx="%.1f" class="%s"/>`, 1.0, `"`)
	d.Small(strings.Repeat("word ", 60))
	var b strings.Builder
	require.NoError(t, d.Write(&b, "a & b"))
	for _, want := range []string{`>a &lt; b</text>`, `class="&#34;"`, `<title>a &amp; b</title>`, `width="900" height="79"`, `<text x="32.0"`} {
		require.Contains(t, b.String(), want)
	}
}
