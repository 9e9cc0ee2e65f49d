package programs

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nicless/nicless/internal/proctest"
)

// A program for RDMaxcel, in C and in C++, makes queue pairs by RDMaxcel's functions, posts and polls. With
// a CUDA runtime it registers the memory of both, which share pages.
func TestRDMaxcelExample(t *testing.T) {
	t.Parallel()
	const source, stub = repository + "/examples/rdmaxcel/rdmaxcel.c", repository + "/accel/cuda/stub"
	languages := []struct {
		name     string
		compiler []string
	}{
		{"C", append(compiler(), "-std=gnu99")}, // libmlx5's header is GNU C
		{"C++", []string{"g++", "-std=c++17", "-x", "c++"}},
	}
	variants := []struct {
		name string
		more []string
	}{
		{"without CUDA", nil},
		{"with a CUDA runtime", []string{"-DHAVE_CUDA", "-I", stub, filepath.Join(stub, "cudart.c")}},
	}
	need(t)
	l := newLab(t)
	for _, language := range languages {
		for _, variant := range variants {
			t.Run(language.name+" "+variant.name, func(t *testing.T) {
				proctest.Need(t, language.compiler[0])
				path := filepath.Join(t.TempDir(), "rdmaxcel")
				args := append(language.compiler[1:len(language.compiler):len(language.compiler)], "-Wall", "-Wextra", "-Werror", "-O2",
					"-I", repository+"/include", "-o", path, source)
				args = append(append(args, variant.more...), "-lmlx5", "-libverbs")
				said, err := exec.Command(language.compiler[0], args...).CombinedOutput()
				require.NoError(t, err, "%s %s:\n%s", language.compiler[0], args, said)
				require.Equal(t, "rdmaxcel: 200 writes, 200 with immediate: ok\n", l.with(t).run(path))
			})
		}
	}
}
