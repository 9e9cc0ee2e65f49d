package include

import (
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A page has the tables of docs/CONTROL.md by their headings.
type page map[string][][]string

func readPage(t *testing.T) (p page, sizes map[string]string) {
	t.Helper()
	text, err := os.ReadFile("../docs/CONTROL.md")
	require.NoError(t, err)
	p, sizes = page{}, map[string]string{}
	heading := ""
	size := regexp.MustCompile(`^Size: (\d+) bytes\.$`)
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		m := size.FindStringSubmatch(line)
		switch {
		case strings.HasPrefix(line, "##"):
			heading = strings.TrimSpace(strings.TrimLeft(line, "#"))
		case m != nil:
			sizes[heading] = m[1]
		case strings.HasPrefix(line, "|"):
			cells := strings.Split(strings.Trim(line, "|"), "|")
			for i := range cells {
				cells[i] = strings.TrimSpace(cells[i])
			}
			p[heading] = append(p[heading], cells)
		}
	}
	return p, sizes
}

// The structs and numbers of control.h are those of docs/CONTROL.md. (Another test compares
// internal/control with that page.) Each message that control.h has is complete.
func TestControlLayout(t *testing.T) {
	doc, sizes := readPage(t)
	eachGolden(t, func(t *testing.T, path string) {
		c := talk(t, path)
		fields := map[string][]string{} // by message: "name offset size"
		for w := c.ask("layout"); w[0] != "."; w = c.line() {
			switch w[0] {
			case "size":
				require.Equal(t, sizes[w[1]], w[2], "size of %s", w[1])
			case "field":
				fields[w[1]] = append(fields[w[1]], strings.Join(w[2:], " "))
			case "value":
				all := strings.Join(w[1:], " ") // table names contain spaces
				table, rest, _ := strings.Cut(all, "=")
				name, value, _ := strings.Cut(rest, " ")
				require.Equal(t, value, doc.value(t, table, name), "%s: %s", table, name)
			default:
				t.Fatalf("answer %q", w)
			}
		}
		require.Len(t, fields, 11)
		for message, got := range fields {
			var want []string
			for _, row := range doc[message] {
				if _, err := strconv.Atoi(row[0]); err == nil && row[1] != "rest" {
					want = append(want, row[2]+" "+row[0]+" "+row[1])
				}
			}
			require.Equal(t, want, got, message)
		}
	})
}

// value returns the number in front of a name in a table.
func (p page) value(t *testing.T, table, name string) string {
	t.Helper()
	for _, row := range p[table] {
		if row[1] == name {
			v, err := strconv.ParseUint(row[0], 0, 64)
			require.NoError(t, err)
			return strconv.FormatUint(v, 10)
		}
	}
	t.Fatalf("docs/CONTROL.md has no %q under %q", name, table)
	return ""
}
