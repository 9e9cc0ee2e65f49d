//go:build linux && (amd64 || arm64)

package engines

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nicless/nicless/internal/await"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// engine is a program that takes the arguments of an engine, says that it is ready, and waits for SIGTERM. It
// keeps its arguments beside its socket.
const engine = `#!/bin/sh
printf '%s\n' "$@" >"$3.arguments"
printf ready >&3
exec 3>&-
tail -f /dev/null >/dev/null 2>&1 &
trap 'kill $!; exit 0' TERM
wait
`

// config returns one whose engines are made by this script.
func config(t *testing.T, script string) Config {
	t.Helper()
	dir := t.TempDir()
	c := Config{Dir: filepath.Join(dir, "s"), Devices: 4, Command: filepath.Join(dir, "engine"),
		Library: filepath.Join(dir, "library"), Log: slog.New(slog.NewTextHandler(t.Output(), nil)), pause: 1}
	require.NoError(t, os.WriteFile(c.Command, []byte(script), 0o700))
	require.NoError(t, os.WriteFile(c.Library, []byte("library"), 0o600))
	return c
}

func open(t *testing.T, c Config) *Pool {
	t.Helper()
	p, err := Open(t.Context(), c)
	require.NoError(t, err)
	t.Cleanup(func() { _ = p.Close() })
	return p
}

func (p *Pool) arguments(t *testing.T, lead int) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(p.cfg.directory(lead), socketName+".arguments"))
	require.NoError(t, err)
	return strings.Fields(string(text))
}

// An engine has the devices of its claim, and no links unless they are asked for.
func TestArguments(t *testing.T) {
	c := config(t, engine)
	c.Args = []string{"--no-devx"}
	p := open(t, c)
	require.NoError(t, p.Start(t.Context(), []string{"3", "1"}))
	require.Equal(t, strings.Fields("engine --socket "+c.directory(1)+"/engine.sock --mode 0666 --verbs --verbs-devices 2 "+
		"--users "+c.users(1)+" --ready-fd 3 --link none --no-devx"), p.arguments(t, 1))
	require.NoError(t, p.Close())

	c.Args = []string{"--link=auto"}
	p = open(t, c)
	require.NoError(t, p.Start(t.Context(), []string{"0"}))
	require.NotContains(t, p.arguments(t, 0), "none")
}

// A claim ends all claims that have one of its devices, and only these.
func TestClaims(t *testing.T) {
	p := open(t, config(t, engine))
	require.NoError(t, p.Start(t.Context(), []string{"0", "1"}))
	require.NoError(t, p.Start(t.Context(), []string{"2"}))
	lead, err := p.Allocate([]string{"3", "1"})
	require.NoError(t, err)
	require.Equal(t, "1", lead)
	require.Equal(t, [][]int{{1, 3}, {2}}, p.list())
	for id, locked := range map[int]bool{0: false, 1: false, 2: true} {
		f, err := tryLock(p.cfg.users(id), unix.LOCK_EX)
		require.Equal(t, locked, errors.Is(err, ErrTaken), id)
		if err == nil {
			require.NoError(t, f.Close())
		}
	}
	claims, err := p.cfg.readClaims()
	require.NoError(t, err)
	require.Equal(t, p.list(), claims)
}

// An engine that does not start fails the start of its container, in the engine's words, and is not tried
// again before the kubelet asks again.
func TestEngineThatDoesNotStart(t *testing.T) {
	c := config(t, "#!/bin/sh\necho x >>"+"\"$3.tries\"\necho 'nicless: error: no memory' >&2\nexit 1\n")
	p := open(t, c)
	err := p.Start(t.Context(), []string{"0"})
	require.ErrorContains(t, err, "the engine of devices [0] did not start")
	require.ErrorContains(t, err, "no memory")
	list, _ := p.Devices()
	require.Equal(t, Device{ID: "0", Healthy: true}, list[0])

	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("the kubelet has given up"))
	require.ErrorIs(t, p.Start(ctx, []string{"1"}), context.Canceled)
}

// An engine that dies at once each time is started again and again, until the pool is closed.
func TestEngineThatAlwaysDies(t *testing.T) {
	c := config(t, "#!/bin/sh\nprintf ready >&3\n")
	p := open(t, c)
	begun := time.Now()
	require.NoError(t, p.Start(t.Context(), []string{"0"}))
	changes := 0
	_, changed := p.Devices()
	await.Until(t, "the engine has died some times", func() bool {
		select {
		case <-changed:
			changes++
			_, changed = p.Devices()
		default:
		}
		return changes >= 6
	}, func() any { return changes })
	t.Logf("%d changes in %v", changes, time.Since(begun))
	require.NoError(t, p.Close())
	_, err := p.Allocate([]string{"0"})
	require.ErrorIs(t, err, os.ErrClosed)
}

// The next process waits until the engines of the former one, which was killed, have ended.
func TestFormerEnginesEndFirst(t *testing.T) {
	c := config(t, engine)
	p := open(t, c)
	require.NoError(t, p.Start(t.Context(), []string{"0"}))
	require.NoError(t, p.Close())

	f, err := tryLock(c.users(0), unix.LOCK_EX) // as an engine has it that ends
	require.NoError(t, err)
	ctx, cancel := context.WithCancelCause(t.Context())
	over := errors.New("over")
	opened := make(chan error, 1)
	go func() {
		_, err := Open(ctx, c)
		opened <- err
	}()
	await.Until(t, "the pool is being opened", func() bool {
		lock, err := tryLock(filepath.Join(c.Dir, "lock"), unix.LOCK_EX)
		if err == nil {
			_ = lock.Close()
		}
		return errors.Is(err, ErrTaken)
	})
	cancel(over)
	require.ErrorIs(t, await.Receive(t, "Open gives up", opened), over)
	require.NoError(t, f.Close())
	p = open(t, c)
	require.Equal(t, [][]int{{0}}, p.list())
}

// Claims that make no sense any more, or cannot be read, keep no plugin from starting.
func TestClaimsOfAnotherPlugin(t *testing.T) {
	for text, want := range map[string][][]int{
		"[[1],[0,9],[],[2,2],[-1]]": {{1}}, "{": nil, "": nil, `[["a"]]`: nil, "[[0,1],[1,2]]": {{1, 2}},
	} {
		c := config(t, engine)
		require.NoError(t, os.Mkdir(c.Dir, 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(c.Dir, "claims.json"), []byte(text), 0o600))
		p := open(t, c)
		require.Equal(t, want, p.list(), text)
		require.NoError(t, p.Close())
	}
}

func TestBadConfig(t *testing.T) {
	for want, change := range map[string]func(*Config){
		"not an absolute path":     func(c *Config) { c.Dir = "s" },
		"a colon or a space":       func(c *Config) { c.Dir += " s" },
		"0 devices":                func(c *Config) { c.Devices = 0 },
		"1025 devices":             func(c *Config) { c.Devices = MaxDevices + 1 },
		"107 are possible":         func(c *Config) { c.Dir = "/" + strings.Repeat("d", 80) },
		"no such file or director": func(c *Config) { c.Command += "s" },
	} {
		c := config(t, engine)
		change(&c)
		_, err := Open(t.Context(), c)
		require.ErrorContains(t, err, want)
	}
}

// Lines of an engine are kept in bounds, and come whole.
func TestSpeaker(t *testing.T) {
	var said strings.Builder
	s := &speaker{log: slog.New(slog.NewTextHandler(&said, nil)), devices: []int{1}}
	long := strings.Repeat("x", 3*longestLine)
	for part := range slices.Chunk([]byte("nicless: error: a reason\n"+long+"\nlast\n"), 7) {
		n, err := s.Write(part)
		require.NoError(t, err)
		require.Equal(t, len(part), n)
	}
	require.EqualError(t, s.reason(), "a reason")
	require.Equal(t, 3, strings.Count(said.String(), "\n"))
	require.Contains(t, said.String(), fmt.Sprintf("says=%s\n", long[:longestLine]))
	require.Contains(t, said.String(), "says=last\n")
}
