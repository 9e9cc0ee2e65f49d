package paragraph

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFold(t *testing.T) {
	for _, row := range []struct {
		text          string
		column, width int
		want          string
	}{
		{"", 3, 5, ""},
		{"a  bc d", 0, 4, "a bc\n d"},
		{"a  bc d", 1, 4, "a\n bc\n d"},
		{"abcdefg h", 0, 4, "abcdefg\n h"},
		{"ää öö ü", 0, 5, "ää öö\n ü"}, // columns are characters
	} {
		require.Equal(t, row.want, Fold(row.text, row.column, row.width, " "), "%q at %d of %d", row.text, row.column, row.width)
	}
}
