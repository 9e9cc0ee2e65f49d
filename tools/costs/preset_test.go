package costs

import (
	"fmt"
	"strings"
	"testing"

	"github.com/nicless/nicless/model"
	"github.com/stretchr/testify/require"
)

func TestBuiltin(t *testing.T) {
	for _, name := range Names() {
		p, err := Builtin(name)
		require.NoError(t, err)
		t.Log(name, p.Fabric.Name, len(p.Price))
	}
}

// Texts of a preset are printed on terminals. Chains of prices are bounded.
func TestHostileTexts(t *testing.T) {
	const price = "\n[price.link]\nns = 5\ntrust = \"P\"\nsource = \"s\"\n"
	var many strings.Builder
	for i := range maxPrices + 1 {
		fmt.Fprintf(&many, "[price.p%d]\nof = \"p%d\"\n", i, i+1)
	}
	for _, c := range []struct{ text, err string }{
		{`about = "a\u001b[31m"`, `line 2: about: "a\x1b[31m" has characters that cannot be printed`},
		{`about = "a\u202e"`, `line 2: about: "a\u202e" has`},
		{"about = \"a\"" + strings.Replace(price, `"s"`, `"s\u0007"`, 1), `line 6: price.link.source: "s\a" has`},
		{"about = \"a\"" + strings.Replace(price, "link", `"\u001b"`, 1), `price: the name "\x1b" has`},
		{"about = \"a\"\n[place]\n\"\\u001b\" = \"host\"", `"place.\x1b": is no structure`},
		{"about = \"a\"\n\"\\u001b\" = 1", `"\x1b": is no key of a preset`},
		{"about = \"a\"\n" + many.String(), "price: there are 1001 prices, more than 1000"},
	} {
		_, err := Parse("x", []byte("base = \"cxl1-fpga\"\n"+c.text))
		require.ErrorContains(t, err, c.err)
		require.NotContains(t, err.Error(), "\x1b")
	}
}

// A signal waits for a flush of its own request, not for one of the request before that ends at the same
// time: the latency has both flushes.
func TestFlushesBeforeASignal(t *testing.T) {
	p, err := Builtin("pool-750")
	require.NoError(t, err)
	tr := model.Trace{Regions: map[string]model.Structure{"sq": model.SQ, "db": model.Records, "ci": model.Records, "cq": model.CQ}}
	add := func(req int, who model.Agent, op model.Op, kind model.Kind, why model.Why, region string, after ...int) {
		tr.Accesses = append(tr.Accesses, model.Access{Seq: len(tr.Accesses) + 1, Who: who, Op: op, Kind: kind, Why: why, Line: model.Line{Region: region, Index: 0}, N: 1, Req: req, After: after})
	}
	for req := range 3 {
		add(req, model.Host, model.Store, model.WQE, model.Once, "sq")
		add(req, model.Host, model.Store, model.Record, model.Signal, "db")
		add(req, model.Dev, model.Load, model.Record, model.Poll, "db", len(tr.Accesses))
		add(req, model.Dev, model.Store, model.CQE, model.Complete, "cq")
		add(req, model.Host, model.Load, model.CQE, model.Poll, "cq", len(tr.Accesses))
		add(req, model.Host, model.Store, model.CI, model.Once, "ci")
	}
	r, err := Run(p, tr, Options{Warm: 2, Until: model.Host})
	require.NoError(t, err)
	flush, load := p.Price["pool_store"].Value, p.Price["pool_load"].Value
	require.InDelta(t, 3*flush+2*load, r.Latency.NS, 1e-6)
}

// A price computed from another one has no better trust than that, and a range that is not below 0.
func TestComputedPrices(t *testing.T) {
	p, err := Parse("x", []byte(`about = "a"
base = "local-xeon"
[price.a]
ns = 10
range = [0, 20]
trust = "P"
source = "s"
[price.guess]
ns = 5
range = [5, 5]
trust = "I"
source = "s"
[price.miss]
of = "a"
minus = ["guess"]
trust = "P"
source = "s"
[price.data]
of = "guess"
trust = "P"
source = "s"
`))
	require.NoError(t, err)
	require.Equal(t, Quantity{Value: 5, Low: 0, High: 15, Trust: Inferred, Source: "s"}, p.Price["miss"])
	require.Equal(t, Inferred, p.Price["data"].Trust)
	_, err = Parse("x", []byte(`base = "local-xeon"`))
	require.ErrorContains(t, err, "about: is missing: one sentence")
}

// A misspelt price is refused, and not kept beside the one that was meant.
func TestMisspeltPrice(t *testing.T) {
	_, err := Parse("x", []byte("about = \"a\"\nbase = \"cxl1-fpga\"\n[price.lnik]\nns = 10\ntrust = \"P\"\nsource = \"s\"\n"))
	require.EqualError(t, err, "preset x: line 3: price.lnik: no rule needs this price, and no other price is computed from it")
	_, err = Parse("x", []byte("about = \"a\"\nbase = \"cxl1-fpga\"\n[price.\"link.cqes\"]\nns = 10\ntrust = \"P\"\nsource = \"s\"\n"))
	require.ErrorContains(t, err, "line 3: price.link.cqes: no rule needs this price")
	_, err = Parse("x", []byte("about = \"a\"\nbase = \"cxl1-fpga\"\n[price.\"link.cqe\"]\nns = 10\ntrust = \"P\"\nsource = \"s\"\n"))
	require.NoError(t, err)
}
