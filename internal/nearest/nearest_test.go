package nearest

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestHint(t *testing.T) {
	words := []string{"opcode", "qp", "pid", "probability", "lose-request", "program", "every"}
	for word, want := range map[string]string{
		"oppcode": "opcode", "opcdoe": "opcode", "Opcode": "opcode", "lose_request": "lose-request", "qpn": "qp",
		"propability": "probability", "pdi": "pid",
		"x": "", "": "", "syndrome": "", strings.Repeat("opcode", 1000): "",
	} {
		if want != "" {
			want = `: did you mean "` + want + `"?`
		}
		require.Equal(t, want, Hint(word, words), word)
	}
}

func TestDistance(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"abc", "", 3}, {"", "ab", 2}, {"abc", "abc", 0}, {"abc", "acb", 1}, {"abc", "abd", 1}, {"kitten", "sitting", 3}} {
		require.Equal(t, c.want, distance(c.a, c.b), c)
		require.Equal(t, c.want, distance(c.b, c.a), c)
	}
}
