package costs

import (
	"bytes"
	"flag"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write testdata/validate.txt anew")

// TestValidate fails if a row changes its status or its prediction in either direction: an improvement has to
// be explained too.
func TestValidate(t *testing.T) {
	rows, err := Validate()
	require.NoError(t, err)
	for _, r := range rows {
		require.Contains(t, trustNames, r.Trust, r.ID)
	}
	var got bytes.Buffer
	require.NoError(t, WriteRows(&got, rows))
	if *update {
		require.NoError(t, os.WriteFile("testdata/validate.txt", got.Bytes(), 0o644))
	}
	want, err := os.ReadFile("testdata/validate.txt")
	require.NoError(t, err)
	require.Equal(t, string(want), got.String(), "if the change is right, say why in docs/reference/cxl-validation.md, and run go test ./tools/costs -update")
}
