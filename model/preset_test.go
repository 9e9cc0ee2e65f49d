package model

import (
	"fmt"
	"strings"
	"testing"

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
