package include

import (
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nicless/nicless/include/internal/requests"
	"github.com/nicless/nicless/internal/proctest"
	"github.com/nicless/nicless/internal/shimtest"
)

// devxPosters returns posters whose queue pairs firmware commands (DEVX) have made: programs of verbs under
// nicless run, which post by package accel or by the C headers.
func devxPosters() (all []*poster) {
	for _, c := range []struct {
		name, how, mode string
		least           int
	}{
		{"lane, DEVX queue", "lane", "0", 6},
		{"lane, DEVX queue, register alone", "lane", "1", 6},
		{"warp, DEVX queue, collapsed", "warp", "0", 1},
		{"C, DEVX queue, collapsed", "c", "0", 10},
		{"C, DEVX queue, register alone, collapsed", "c", "2", 10},
	} {
		p := &poster{name: c.name, least: c.least}
		var program *talker
		var left look
		p.begin = func(t *testing.T) {
			program = talk(t, buildCommand(t), "run", "--private", "--devx", "--", buildDEVXPoster(t), c.how, c.mode)
			var near, far requests.Memory
			first := strings.Join(program.line(), " ")
			_, err := fmt.Sscan(first, &p.qpn, &p.blocks,
				&near.Addr, &near.LKey, &near.RKey, &far.Addr, &far.LKey, &far.RKey)
			require.NoError(t, err, first)
			p.requests = requests.All(near, far)
		}
		p.post = func(t *testing.T, i int, r *requests.Request) bool {
			answer := program.ask("do %d", i)
			if answer[0] == "none" {
				return false
			}
			require.Len(t, answer, 4, r.Name)
			var parts [4][]byte
			for k, text := range answer {
				var err error
				parts[k], err = hex.DecodeString(text)
				require.NoError(t, err)
			}
			left = look{parts[0], parts[1], [2]uint64{be.Uint64(parts[2]), be.Uint64(parts[3])}}
			return true
		}
		p.look = func(*testing.T) look { return left }
		// 256 lanes, or four threads of C, go around the ring of 64 blocks 80 times. Then the program checks
		// its memories.
		p.finish = func(t *testing.T) {
			require.Equal(t, []string{"done"}, program.ask("laps 20"))
			require.Equal(t, []string{"ok"}, program.ask("end"))
		}
		all = append(all, p)
	}
	return all
}

// buildCommand builds the command nicless and the library that programs preload, once, and returns the path
// of the command.
func buildCommand(t *testing.T) string {
	t.Helper()
	if path := built["nicless"]; path != "" {
		return path
	}
	if testing.Short() {
		t.Skip("-short: the command nicless is not built")
	}
	for _, header := range []string{"infiniband/mlx5dv.h", "linux/userfaultfd.h"} {
		if _, err := os.Stat(filepath.Join("/usr/include", header)); err != nil {
			proctest.Missing(t, "a header is not installed (Debian: apt install libibverbs-dev libc6-dev): %v", err)
		}
	}
	if found, _ := filepath.Glob("/usr/lib/*-linux-gnu/libibverbs/libmlx5-rdmav*.so"); found == nil {
		proctest.Missing(t, "libmlx5 is not installed (Debian: apt install ibverbs-providers)")
	}
	proctest.Need(t, "make", "gcc")
	dir := filepath.Join(scratch, "command")
	require.NoError(t, os.MkdirAll(dir, 0o755))
	require.NoError(t, shimtest.Build("..", filepath.Join(dir, "libnicless_verbs.so")))
	built["nicless"] = filepath.Join(dir, "nicless")
	execute(t, "go", "build", "-o", built["nicless"], "../cmd/nicless")
	return built["nicless"]
}

func buildDEVXPoster(t *testing.T) string {
	t.Helper()
	if built["devxposter"] == "" {
		path := filepath.Join(scratch, "devxposter")
		execute(t, "go", "build", "-o", path, "./testdata/devxposter")
		built["devxposter"] = path
	}
	return built["devxposter"]
}

func execute(t *testing.T, argv ...string) {
	t.Helper()
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=1")
	said, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s\n%s", strings.Join(argv, " "), said)
}
