// Package include tests the C headers: it compares what they write with the bytes of the
// vendor's library and of Go, and uses them with a real engine. It needs a C compiler. If
// there is a C++ compiler, it also tests C++.
package include

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nicless/nicless/internal/await"
	"github.com/stretchr/testify/require"

	"github.com/nicless/nicless"
)

// A language in which the programs of check/ are compiled.
type language struct {
	name, variable, compiler string
	flags                    []string
}

var languages = []language{
	{"c99", "CC", "gcc", []string{"-std=c99"}},
	{"c++17", "CXX", "g++", []string{"-std=c++17", "-x", "c++"}},
}

// built has the paths of the programs that were compiled, by language and name.
var built = map[string]string{}

var scratch string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "nicless-include")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	scratch = dir
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// each runs f with the named program of check/ in every language that can be compiled here.
// Without a C compiler the test is skipped, or fails in CI.
func each(t *testing.T, program string, f func(t *testing.T, path string)) {
	for _, l := range languages {
		t.Run(l.name, func(t *testing.T) { f(t, l.build(t, program)) })
	}
}

// A golden is a way to run the functions of the headers: the program check/golden.c in some language.
type golden struct {
	name  string
	build func(t *testing.T) (path string)
}

// goldens returns those of C, of C++, and of a GPU.
func goldens() []golden {
	var all []golden
	for _, l := range languages {
		all = append(all, golden{l.name, func(t *testing.T) string { return l.build(t, "golden") }})
	}
	return append(all, golden{"cuda", buildForGPU})
}

// eachGolden runs f with each golden.
func eachGolden(t *testing.T, f func(t *testing.T, path string)) {
	for _, g := range goldens() {
		t.Run(g.name, func(t *testing.T) { f(t, g.build(t)) })
	}
}

// build compiles the named program of check/, once, and returns its path.
func (l *language) build(t *testing.T, program string) string {
	t.Helper()
	key := l.name + "-" + program
	if built[key] == "" {
		out := filepath.Join(scratch, key)
		l.compile(t, out, filepath.Join("check", program+".c"))
		built[key] = out
	}
	return built[key]
}

// compile compiles and links one source file, with all warnings as errors.
func (l *language) compile(t *testing.T, out, source string, flags ...string) {
	t.Helper()
	compiler := l.compiler
	if v := os.Getenv(l.variable); v != "" {
		compiler = v
	}
	words := strings.Fields(compiler)
	if _, err := exec.LookPath(words[0]); err != nil {
		if os.Getenv("CI") != "" && l.name == "c99" {
			t.Fatalf("no C compiler %q, and CI needs one: %v", compiler, err)
		}
		t.Skipf("no %s compiler %q: the headers are not tested (%v)", l.name, compiler, err)
	}
	args := append(words[1:], "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-O2")
	args = append(append(append(args, l.flags...), flags...), "-o", out, source, "-pthread")
	said, err := exec.Command(words[0], args...).CombinedOutput()
	require.NoError(t, err, "%s %s:\n%s", words[0], args, said)
}

// A talker is a program that answers requests. Each request and each answer is one line.
type talker struct {
	t   *testing.T
	in  io.Writer
	out *bufio.Reader
}

func talk(t *testing.T, path string, args ...string) *talker {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), path, args...)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait()
	})
	return &talker{t: t, in: in, out: bufio.NewReader(out)}
}

// ask sends a request, and returns the words of the answer.
func (k *talker) ask(format string, args ...any) []string {
	k.t.Helper()
	_, err := fmt.Fprintf(k.in, format+"\n", args...)
	require.NoError(k.t, err)
	return k.line()
}

func (k *talker) line() []string {
	k.t.Helper()
	s, err := k.out.ReadString('\n')
	require.NoError(k.t, err)
	return strings.Fields(s)
}

// serve runs an engine with links for other processes until the test ends.
func serve(t *testing.T, links ...string) (socket string) {
	t.Helper()
	socket = filepath.Join(t.TempDir(), "engine.sock")
	ctx, cancel := context.WithCancel(context.Background())
	ready, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- nicless.Serve(ctx, socket, 0o600, nicless.Config{Links: links}, func() { close(ready) })
	}()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-ended)
	})
	select {
	case <-ready:
	case err := <-ended:
		ended <- nil
		require.NoError(t, err)
	}
	return socket
}

// run runs a program to its end and returns what it printed.
func run(t *testing.T, path string, args ...string) (string, error) {
	t.Helper()
	ctx := await.Context(t)
	out, err := exec.CommandContext(ctx, path, args...).CombinedOutput()
	return string(out), err
}
