package code

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/nicless/nicless/accel/ptx/internal/syntax"
	"github.com/stretchr/testify/require"
)

func TestCorpus(t *testing.T) {
	files, err := filepath.Glob(os.Getenv("PTX_CORPUS"))
	require.NoError(t, err)
	for _, name := range files {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		s, err := syntax.Parse(string(text))
		require.NoError(t, err, name)
		m, err := Build(s)
		require.NoError(t, err)
		for _, f := range m.Functions {
			t.Log(name, f.Name, len(f.Insts), f.Slots, f.Predicates, f.FrameBytes, len(f.Consts), f.Err)
		}
	}
}
