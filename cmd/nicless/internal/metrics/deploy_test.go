package metrics

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/nicless/nicless/internal/await"
	"github.com/stretchr/testify/require"
)

const deploy = root + "/deploy/"

// ours are the names of our metrics in an expression, with the labels that it matches. Strings are removed
// before.
var (
	quoted = regexp.MustCompile(`"[^"]*"|'[^']*'`)
	ours   = regexp.MustCompile(`\b(nicless_[a-z0-9_]+)(\{[^}]*\})?`)
	match  = regexp.MustCompile(`([a-z_]+)\s*(?:=~|!~|!=|=)`)
)

// checkExpression checks that the metrics of an expression exist and have the labels that it matches, and
// that rate and increase are of counters.
func checkExpression(t *testing.T, expr string) (metrics int) {
	t.Helper()
	e := New("", nil, Build{})
	known := map[string]row{}
	for _, r := range e.seen.rows() {
		known[r.name] = r
	}
	text := quoted.ReplaceAllString(expr, `""`)
	for _, m := range ours.FindAllStringSubmatchIndex(text, -1) {
		name := text[m[2]:m[3]]
		r, ok := known[name]
		require.True(t, ok, "%s: no metric %s is served", expr, name)
		metrics++
		if m[4] >= 0 {
			for _, l := range match.FindAllStringSubmatch(text[m[4]:m[5]], -1) {
				require.Contains(t, append([]string{"instance", "job"}, r.labels...), l[1], "%s: labels of %s", expr, name)
			}
		}
		before := text[:m[0]]
		counted := strings.HasSuffix(before, "rate(") || strings.HasSuffix(before, "increase(")
		require.Equal(t, strings.HasSuffix(name, "_total"), counted, "%s: rates are of counters, and counters are read by rates: %s", expr, name)
	}
	return metrics
}

func TestRulesUseMetricsThatExist(t *testing.T) {
	text, err := os.ReadFile(deploy + "prometheus/nicless.rules.yaml")
	require.NoError(t, err)
	var file struct {
		Groups []struct {
			Name  string
			Rules []struct {
				Alert, Expr, For    string
				Labels, Annotations map[string]string
			}
		}
	}
	require.NoError(t, yaml.UnmarshalWithOptions(text, &file, yaml.Strict()))
	require.Len(t, file.Groups, 1)
	seen := map[string]bool{}
	for _, r := range file.Groups[0].Rules {
		require.False(t, seen[r.Alert], "%s is there twice", r.Alert)
		seen[r.Alert] = true
		require.NotEmpty(t, r.Annotations["summary"], r.Alert)
		require.NotEmpty(t, r.Annotations["description"], r.Alert)
		require.Contains(t, []string{"critical", "warning", "info"}, r.Labels["severity"])
		if n := checkExpression(t, r.Expr); n == 0 {
			require.Equal(t, `up{job="nicless"} == 0`, r.Expr)
		}
	}
	require.Len(t, seen, 9)
}

func TestDashboardUsesMetricsThatExist(t *testing.T) {
	text, err := os.ReadFile(deploy + "grafana/nicless.json")
	require.NoError(t, err)
	var board struct {
		Title, UID string
		Templating struct {
			List []struct{ Name, Type, Definition string }
		}
		Panels []struct {
			ID      int
			Type    string
			Title   string
			GridPos struct{ X, Y, W, H int }
			Targets []struct{ Expr, RefID string }
		}
	}
	require.NoError(t, json.Unmarshal(text, &board))
	for _, v := range board.Templating.List {
		checkExpression(t, v.Definition)
	}
	ids, cells := map[int]bool{}, map[[2]int]string{}
	metrics := 0
	for _, p := range board.Panels {
		require.False(t, ids[p.ID], "panel %d is there twice", p.ID)
		ids[p.ID] = true
		at := p.GridPos
		require.LessOrEqual(t, at.X+at.W, 24, p.Title)
		for x := at.X; x < at.X+at.W; x++ {
			for y := at.Y; y < at.Y+at.H; y++ {
				require.Empty(t, cells[[2]int{x, y}], "%s lies on another panel", p.Title)
				cells[[2]int{x, y}] = p.Title
			}
		}
		require.Equal(t, p.Type == "row", len(p.Targets) == 0, p.Title)
		for _, target := range p.Targets {
			metrics += checkExpression(t, target.Expr)
		}
	}
	require.Greater(t, metrics, 20)
}

// Prometheus's own tool reads the rules, and finds that values make the alerts that they should.
func TestRulesByPromtool(t *testing.T) {
	path, err := exec.LookPath("promtool")
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("CI needs promtool: %v", err)
		}
		t.Skipf("promtool is not installed (Debian: apt install prometheus): %v", err)
	}
	c := exec.CommandContext(await.Context(t), path, "test", "rules", "nicless.rules.test.yaml")
	c.Dir = filepath.FromSlash(deploy + "prometheus")
	out, err := c.CombinedOutput()
	require.NoError(t, err, "%s", out)

	// The metrics, too: their names and help texts are as Prometheus wants them.
	f := newFake(t)
	f.sample()
	page, err := f.exporter().page(plainText)
	require.NoError(t, err)
	c = exec.CommandContext(await.Context(t), path, "check", "metrics")
	c.Stdin = strings.NewReader(string(page))
	out, err = c.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Empty(t, string(out))
}
