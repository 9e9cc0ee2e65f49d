//go:build linux && (amd64 || arm64)

package top

import (
	"encoding/xml"
	"flag"
	"fmt"
	"image/color"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"
	"github.com/nicless/nicless/cmd/nicless/internal/enginetest"
	"github.com/nicless/nicless/internal/await"
	"github.com/stretchr/testify/require"
)

var (
	screenshots = flag.String("screenshots", "", "write pictures of the screen into this folder")
	pictured    = flag.String("engine", "", "socket of the engine in the pictures; by default one with a small client")
)

// The size of a character in a drawing, and attributes of cells as the virtual terminal has them.
const (
	cellWidth, cellHeight = 8, 17
	attrBold, attrReverse = 1 << 0, 1 << 5
)

// paints are the colours that a drawing has in place of those of the screen, which are dark.
var paints = map[string]string{"": "#d8dade", "008000": "#5fcf80", "800000": "#ff7b80", "008080": "#63c7d6"}

// paint returns the colour of a drawing for one of the screen; nil is the default.
func paint(c color.Color) string {
	key := ""
	if c != nil {
		r, g, b, _ := c.RGBA()
		key = fmt.Sprintf("%02x%02x%02x", r>>8, g>>8, b>>8)
	}
	if p, ok := paints[key]; ok {
		return p
	}
	return "#" + key
}

// back is the background of drawings.
const back = "#16181d"

// drawing returns what the virtual terminal shows as a picture in SVG. Each text is as wide as its cells,
// whatever font shows it.
func (s *screen) drawing() string {
	s.text()
	var b strings.Builder
	width, height := s.vt.Width()*cellWidth+16, s.vt.Height()*cellHeight+16
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" role="img" xml:space="preserve">`+"\n",
		width, height, width, height)
	b.WriteString("<style>text{font-family:ui-monospace,'DejaVu Sans Mono',monospace;font-size:13px;white-space:pre}</style>\n")
	fmt.Fprintf(&b, `<rect width="100%%" height="100%%" rx="6" fill="%s"/>`+"\n", back)
	for y := range s.vt.Height() {
		for x := 0; x < s.vt.Width(); {
			x += s.drawRun(&b, x, y)
		}
	}
	b.WriteString("</svg>\n")
	return b.String()
}

// drawRun draws the cells of one style that begin at a cell, and returns how many they are.
func (s *screen) drawRun(b *strings.Builder, x, y int) (cells int) {
	style, text := s.vt.CellAt(x, y).Style, ""
	for x+cells < s.vt.Width() {
		c := s.vt.CellAt(x+cells, y)
		if !c.Style.Equal(&style) {
			break
		}
		text += c.Content
		cells += max(c.Width, 1)
	}
	left, top, ink, weight := x*cellWidth+8, y*cellHeight+8, paint(style.Fg), ""
	if style.Attrs&attrReverse != 0 {
		fmt.Fprintf(b, `<rect x="%d" y="%d" width="%d" height="%d" fill="%s"/>`+"\n", left, top, cells*cellWidth, cellHeight, ink)
		ink = back
	}
	if style.Attrs&attrBold != 0 {
		weight = ` font-weight="bold"`
	}
	if text = strings.TrimRight(text, " "); text == "" {
		return cells
	}
	begin := len(text) - len(strings.TrimLeft(text, " "))
	text = text[begin:]
	fmt.Fprintf(b, `<text x="%d" y="%d" textLength="%d" lengthAdjust="spacingAndGlyphs" fill="%s"%s>`, left+begin*cellWidth, top+13,
		ansi.StringWidth(text)*cellWidth, ink, weight)
	_ = xml.EscapeText(b, []byte(text)) // a Builder does not fail
	b.WriteString("</text>\n")
	return cells
}

// draw writes the drawing into the folder of -screenshots, if there is one.
func (s *screen) draw(name string) {
	s.t.Helper()
	if *screenshots == "" {
		return
	}
	require.NoError(s.t, os.MkdirAll(*screenshots, 0o755))
	require.NoError(s.t, os.WriteFile(filepath.Join(*screenshots, name+".svg"), []byte(s.drawing()), 0o644))
}

// The drawings of a screen have all its text, and colours. They are pictures of the documentation.
func TestDrawings(t *testing.T) {
	path := *pictured
	if path == "" {
		path = enginetest.Serve(t)
		_, stop := enginetest.Writer(t, path)
		defer stop()
	}
	live := func(height int) *screen {
		s := newScreen(t, Live(path), 100, height)
		s.m.st = newStyles(false) // the signs of most terminals
		await.Until(t, "latencies of the first queue", func() bool {
			s.refresh()
			_, row, _ := strings.Cut(s.text(), "\n> ") // and a number, which may be short
			row, _, _ = strings.Cut(row, "\n")
			columns := strings.Fields(row)
			return len(columns) > 9 && columns[8] != "-" // P50
		})
		return s
	}
	tables := live(12)
	tables.requireDrawn()
	tables.draw("top")
	ring := live(24)
	ring.keys("enter tab refresh")
	require.Contains(t, ring.text(), "RDMA_WRITE")
	ring.requireDrawn()
	ring.draw("top-ring")
}

// requireDrawn compares the drawing with the text of the screen.
func (s *screen) requireDrawn() {
	s.t.Helper()
	drawn := s.drawing()
	want := strings.Join(strings.Fields(s.text()), "")
	require.Equal(s.t, want, strings.Join(strings.Fields(textOf(s.t, drawn)), ""))
	require.Contains(s.t, drawn, `fill="#63c7d6"`, "keys are cyan")
	require.Contains(s.t, drawn, `font-weight="bold"`)
	require.Contains(s.t, drawn, `fill="#16181d" font-weight`, "reverse")
}

// textOf returns the text of all text elements.
func textOf(t *testing.T, drawing string) string {
	t.Helper()
	var b strings.Builder
	inside := false
	for d := xml.NewDecoder(strings.NewReader(drawing)); ; {
		token, err := d.Token()
		if err == io.EOF {
			return b.String()
		}
		require.NoError(t, err)
		switch token := token.(type) {
		case xml.StartElement:
			inside = token.Name.Local == "text"
		case xml.EndElement:
			inside = false
		case xml.CharData:
			if inside {
				b.Write(token)
			}
		}
	}
}
