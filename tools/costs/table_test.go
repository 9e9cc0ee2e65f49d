package costs

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/nicless/nicless/model"
	"github.com/stretchr/testify/require"
)

// fixed returns presets that tests may rely on: the numbers of those that the package has may change.
func fixed(t *testing.T) (list []*Preset) {
	t.Helper()
	for _, name := range []string{"near", "far"} {
		text, err := os.ReadFile(filepath.Join("testdata/reports", name+".toml"))
		require.NoError(t, err)
		p, err := Parse(name, text)
		require.NoError(t, err)
		list = append(list, p)
	}
	changed, err := list[1].With(nil, map[string]string{"payload.store": "NC-P", "cqe.store": "NC-P"}, nil)
	require.NoError(t, err)
	changed.Name = "far+ncp"
	return append(list, changed)
}

// A form writes a result.
type form func(io.Writer) error

// outputs returns everything that can be printed, by the name of its golden file.
func outputs(t *testing.T) map[string]form {
	t.Helper()
	presets := fixed(t)
	trace, err := Loopback(64, 6)
	require.NoError(t, err)
	o := Options{Warm: 4, Until: model.Dev}
	c, err := Compare("packets of 64 bytes, <&> until they are back", presets, trace, o)
	require.NoError(t, err)
	s, err := RunSweep("packets of 64 bytes", presets[:2], trace, o, "link", 0, 300, 100)
	require.NoError(t, err)
	other, err := presets[2].With(nil, nil, map[string]string{"price.link": "200..300"})
	require.NoError(t, err)
	d := DiffPresets(presets[1], other)
	l := presets[1].List()
	return map[string]form{
		"compare.txt": c.Table, "compare.json": c.JSON, "compare.svg": c.SVG,
		"sweep.txt": s.Table, "sweep.json": s.JSON, "sweep.svg": s.SVG,
		"diff.txt": d.Table, "diff.json": d.JSON,
		"show.txt": l.Table, "show.json": l.JSON,
	}
}

func written(t *testing.T, f form) string {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, f(&b))
	return b.String()
}

func TestReports(t *testing.T) {
	for name, f := range outputs(t) {
		got, path := written(t, f), filepath.Join("testdata/reports", name)
		if *update {
			require.NoError(t, os.WriteFile(path, []byte(got), 0o644))
		}
		want, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, string(want), got, "go test ./tools/costs -run TestReports -update rewrites %s", path)
	}
}

// Every output ends with the weakest trust, and the ranges are near. Tables fit 100 columns.
func TestReportsEndWithTrust(t *testing.T) {
	for name, f := range outputs(t) {
		text := written(t, f)
		lines := strings.Split(strings.TrimSpace(text), "\n")
		end := strings.Join(lines[max(0, len(lines)-8):], "\n")
		require.Regexp(t, `measured|inferred|recalled`, end, name)
		require.Regexp(t, `range|"high"|\d\.\.\d`, text, name)
		if strings.HasSuffix(name, ".txt") {
			for _, line := range lines {
				require.LessOrEqual(t, len(line), width, line)
			}
		}
	}
}

// Numbers that rest on recalled or inferred prices have at most two digits, in each form.
func TestTwoDigits(t *testing.T) {
	significant := func(text string) int {
		return len(strings.TrimLeft(strings.TrimRight(strings.Replace(text, ".", "", 1), "0"), "0"))
	}
	trace, err := Loopback(64, 6)
	require.NoError(t, err)
	for _, name := range Names() {
		p, err := Builtin(name)
		require.NoError(t, err)
		c, err := Compare("loopback", []*Preset{p}, trace, Options{Warm: 4, Until: model.Dev})
		require.NoError(t, err)
		require.Equal(t, p.Weakest() >= Recalled, c.Reports[0].Vague, name)
		var list []Report
		require.NoError(t, json.Unmarshal([]byte(written(t, c.JSON)), &list))
		numbers := []float64{list[0].Latency.NS, list[0].Latency.Low, list[0].Latency.High}
		for _, s := range list[0].Steps {
			numbers = append(numbers, s.NS)
		}
		for _, n := range numbers {
			require.LessOrEqual(t, significant(digits(n, 9)), c.Reports[0].precision(), "%s: %v", name, n)
		}
		table, _, _ := strings.Cut(written(t, c.Table), "messages on")
		for _, n := range regexp.MustCompile(`[\d.]*\d`).FindAllString(regexp.MustCompile(`(?m) [\d.]+$|\S+\.\.\S+$`).FindString(table), -1) {
			require.LessOrEqual(t, significant(n), c.Reports[0].precision(), table)
		}
	}
}

// The parts of a bar and the rows of a table add up to the total, and the names of the steps come in the
// order of the path, although the presets have different ones.
func TestStepsOfAComparison(t *testing.T) {
	trace, err := Loopback(64, 6)
	require.NoError(t, err)
	c, err := Compare("loopback", fixed(t), trace, Options{Warm: 4, Until: model.Dev})
	require.NoError(t, err)
	for _, r := range c.Reports {
		sum := 0.0
		for _, name := range c.steps() {
			ns, _ := r.step(name)
			sum += ns
		}
		require.InDelta(t, r.Latency.NS, sum, 1e-6)
	}
	require.Equal(t, []string{"a", "x", "b", "y", "c"}, mergeOrder([]string{"a", "b", "c"}, []string{"a", "x", "b", "a", "y"}))
	require.Equal(t, []string{"y", "a"}, mergeOrder([]string{"a"}, []string{"y"}))
}

// Pictures are XML without scripts and without anything from elsewhere, whatever the title is.
func TestPictures(t *testing.T) {
	for _, name := range []string{"compare.svg", "sweep.svg"} {
		text := written(t, outputs(t)[name])
		dec := xml.NewDecoder(strings.NewReader(text))
		for {
			token, err := dec.Token()
			if errors.Is(err, io.EOF) {
				break
			}
			require.NoError(t, err)
			if e, ok := token.(xml.StartElement); ok {
				require.Contains(t, []string{"svg", "title", "style", "rect", "line", "text", "polygon", "polyline", "circle"}, e.Name.Local)
			}
		}
		require.NotContains(t, strings.ReplaceAll(text, "http://www.w3.org/2000/svg", ""), "http")
	}
}

func TestDigits(t *testing.T) {
	for _, row := range []struct {
		v    float64
		n    int
		want string
	}{{1311.5, 2, "1300"}, {99.99999999999999, 3, "100"}, {0.0123, 2, "0.012"}, {0, 2, "0"}, {1e-9, 2, "0"}, {2.5e7, 2, "25000000"}, {-12.34, 2, "-12"}} {
		require.Equal(t, row.want, digits(row.v, row.n))
	}
}

func TestNameLines(t *testing.T) {
	for name, want := range map[string][]string{
		"upi":                                    {"upi"},
		"cxl1-fpga+all-cacheable":                {"cxl1-fpga+all-cacheable"},
		"cxl2-fpga+cq=dev+rq=dev+payload.rx=dev": {"cxl2-fpga+cq=dev+rq=dev", "+payload.rx=dev"},
		"":                                       {""},
	} {
		require.Equal(t, want, nameLines(name))
	}
}
