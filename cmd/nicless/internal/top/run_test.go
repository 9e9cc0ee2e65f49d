//go:build linux && (amd64 || arm64)

package top

import (
	"bytes"
	"context"
	"io"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/charmbracelet/x/vt"
	"github.com/nicless/nicless/internal/await"
	"github.com/stretchr/testify/require"

	tea "charm.land/bubbletea/v2"
)

// A terminal runs the whole program on a virtual terminal, which answers what programs ask terminals.
type terminal struct {
	t      *testing.T
	source *recorded
	vt     *vt.SafeEmulator
	ended  chan error
	next   chan func() // lets a pause end

	mu  sync.Mutex
	out bytes.Buffer // all that the program has written
}

func (x *terminal) Write(b []byte) (int, error) {
	x.mu.Lock()
	x.out.Write(b)
	x.mu.Unlock()
	// The input is no terminal that the program could make raw. So it expects what a terminal does with line
	// feeds in its usual mode.
	if _, err := x.vt.Write(bytes.ReplaceAll(b, []byte("\n"), []byte("\r\n"))); err != nil {
		return 0, err
	}
	return len(b), nil
}

// written returns what the program has written so far.
func (x *terminal) written() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.out.String()
}

func start(t *testing.T, width, height int, noColor bool, environ ...string) *terminal {
	t.Helper()
	x := &terminal{t: t, source: load(t, recording), vt: vt.NewSafeEmulator(width, height), ended: make(chan error, 1),
		next: make(chan func(), 1)}
	in, keyboard := io.Pipe()
	go func() { _, _ = io.Copy(keyboard, x.vt) }()
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		x.ended <- Run(ctx, x.source, Terminal{In: in, Out: x, Environ: environ, NoColor: noColor,
			Size: func() (int, int) { return width, height }}, Options{Engine: "/run/nicless.sock", Interval: time.Second,
			ASCII: true, Now: func() time.Time { return began }, CPU: func() time.Duration { return 0 },
			After: x.after})
	}()
	t.Cleanup(func() {
		cancel()
		_ = in.Close()
		_ = keyboard.Close()
	})
	return x
}

// after is a pause that ends when the test says so.
func (x *terminal) after(_ time.Duration, msg tea.Msg) tea.Cmd {
	return func() tea.Msg {
		done := make(chan struct{})
		select {
		case x.next <- func() { close(done) }:
		case <-x.t.Context().Done():
			return nil
		}
		select {
		case <-done:
		case <-x.t.Context().Done():
		}
		return msg
	}
}

// refresh lets the pause end.
func (x *terminal) refresh() {
	end := await.Receive(x.t, "the program pauses", x.next) // the last answer has come
	x.source.next()
	end()
}

func (x *terminal) shows(text string) {
	x.t.Helper()
	await.Until(x.t, "the screen shows "+text, func() bool { return strings.Contains(x.text(), text) },
		func() any { return x.text() })
}

// text returns what the virtual terminal shows.
func (x *terminal) text() string { return ansi.Strip(x.vt.Render()) }

func (x *terminal) quits() {
	x.t.Helper()
	require.NoError(x.t, await.Receive(x.t, "the program ends", x.ended))
}

// The program shows the source on a terminal, takes keys, and gives the terminal back.
func TestRun(t *testing.T) {
	x := start(t, 80, 24, false, "TERM=xterm-256color")
	x.shows("[Queues]")
	x.refresh()
	x.shows("250k WQE/s")
	x.vt.SendText("/0x53")
	x.shows("filter: 0x53_")
	x.vt.SendText("\r")
	x.shows("1 of 4  filter: 0x53")
	x.vt.SendText("\x1b")
	x.shows("4 of 4")
	x.vt.SendText("\r\t")
	x.shows("consumer 40")
	x.vt.SendText("q")
	x.shows("[Queues]")
	require.Contains(t, x.written(), "\x1b[?1049h", "the alternate screen")
	require.NotContains(t, x.written(), "\x1b[?1049l")
	x.vt.SendText("q")
	x.quits()
	require.Contains(t, x.written(), "\x1b[?1049l")
}

// A refresh writes only the cells that have changed.
func TestRunWritesChangesOnly(t *testing.T) {
	x := start(t, 80, 24, false, "TERM=xterm-256color")
	x.shows("[Queues]")
	first := len(x.written())
	x.refresh()
	x.shows("250k WQE/s")
	x.shows("16.9us")
	x.vt.SendText("q")
	x.quits()
	require.Greater(t, first, 500)
	require.Less(t, len(x.written()), 2*first)
}

var colour = regexp.MustCompile(`\x1b\[[0-9;:]*\b[349][0-8][;:m]`)

// Without colours, the same is on the screen.
func TestRunWithoutColours(t *testing.T) {
	for name, c := range map[string]struct {
		noColor bool
		environ []string
		colours bool
	}{
		"colours":    {false, []string{"TERM=xterm-256color"}, true},
		"NO_COLOR":   {false, []string{"TERM=xterm-256color", "NO_COLOR=1"}, false},
		"--no-color": {true, []string{"TERM=xterm-256color"}, false},
		"vt100":      {false, []string{"TERM=vt100"}, false},
		"dumb":       {false, []string{"TERM=dumb"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			// a file that is no terminal has no colours, unless the environment says so
			x := start(t, 80, 24, c.noColor, append(c.environ, "TTY_FORCE=1")...)
			x.refresh()
			x.shows("250k WQE/s")
			x.shows("> ")
			x.vt.SendText("q")
			x.quits()
			require.Equal(t, c.colours, colour.MatchString(x.written()), "%q", x.written())
		})
	}
}

// When the context ends, the terminal is given back, too.
func TestRunEndsWithContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var out bytes.Buffer
	in, keyboard := io.Pipe()
	defer keyboard.Close()
	cancel()
	err := Run(ctx, load(t, recording), Terminal{In: in, Out: &out, Environ: []string{"TERM=xterm"},
		Size: func() (int, int) { return 80, 24 }}, Options{Interval: time.Second})
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, strings.Count(out.String(), "\x1b[?1049h"), strings.Count(out.String(), "\x1b[?1049l"))
}
