package metrics

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the table of docs/METRICS.md")

const (
	root = "../../../.."
	page = root + "/docs/METRICS.md"
)

// The document has the table of the metrics that there are.
func TestTableInTheDocument(t *testing.T) {
	var b strings.Builder
	b.WriteString("| name | type | labels | meaning |\n| --- | --- | --- | --- |\n")
	e := New("", nil, Build{})
	for _, r := range e.seen.rows() {
		kind := map[prometheus.ValueType]string{prometheus.CounterValue: "counter", prometheus.GaugeValue: "gauge"}[r.kind]
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", r.name, kind, strings.Join(r.labels, ", "), r.help)
	}
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	const begin = "| name | type |"
	before, rest, ok := strings.Cut(string(text), begin)
	require.True(t, ok, "%s has no line that begins with %s", page, begin)
	_, after, _ := strings.Cut(rest, "\n\n")
	want := before + b.String() + "\n" + after
	if *update {
		require.NoError(t, os.WriteFile(page, []byte(want), 0o644))
	}
	text, err = os.ReadFile(page)
	require.NoError(t, err)
	require.Equal(t, want, string(text), "go test ./cmd/nicless/internal/metrics -update writes the table")
}

// Every metric of the table is served, with its type, its help and its labels, and no other is.
func TestTableIsWhatIsServed(t *testing.T) {
	f := newFake(t)
	f.sample()
	e := f.exporter()
	_, err := e.page(plainText)
	require.NoError(t, err)
	served := map[string]*dto.MetricFamily{}
	for _, m := range e.families {
		served[m.GetName()] = m
	}
	for _, r := range e.seen.rows() {
		m := served[r.name]
		require.NotNil(t, m, r.name)
		require.Equal(t, r.help, m.GetHelp())
		require.Equal(t, r.kind == prometheus.CounterValue, m.GetType() == dto.MetricType_COUNTER, r.name)
		var names []string
		for _, l := range m.GetMetric()[0].GetLabel() {
			names = append(names, l.GetName())
		}
		require.ElementsMatch(t, r.labels, names, r.name)
		require.Regexp(t, regexp.MustCompile(`^[A-Z0-9].*\.$`), r.help, "a sentence")
		delete(served, r.name)
	}
	require.Empty(t, served)
}
