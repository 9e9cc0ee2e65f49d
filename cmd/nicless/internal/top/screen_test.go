//go:build linux && (amd64 || arm64)

package top

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/vt"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the recording and the golden screens anew")

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(m.Run())
}

// A screen plays messages to a model, and shows its text on a virtual terminal. Time stands still but for
// what a test adds to it.
type screen struct {
	t      *testing.T
	m      *Model
	source *recorded // nil if the source is another one
	vt     *vt.Emulator
	now    time.Time
	cpu    time.Duration // processor time of the process
	pauses []time.Duration
	next   tea.Msg // the tick that is due after the last pause
	quit   bool
}

func newScreen(t *testing.T, source Source, width, height int) *screen {
	t.Helper()
	r, _ := source.(*recorded)
	s := &screen{t: t, source: r, vt: vt.NewEmulator(width, height), now: began}
	s.m = New(t.Context(), source, Options{Engine: "/run/nicless.sock", Interval: time.Second, ASCII: true,
		Now: func() time.Time { return s.now },
		CPU: func() time.Duration { return s.cpu },
		After: func(d time.Duration, msg tea.Msg) tea.Cmd {
			s.pauses, s.next = append(s.pauses, d), msg
			return nil
		}})
	s.send(tea.WindowSizeMsg{Width: width, Height: height})
	s.do(s.m.Init())
	return s
}

// do runs a command and all that follow from it.
func (s *screen) do(c tea.Cmd) {
	if c == nil {
		return
	}
	switch msg := c().(type) {
	case nil:
	case tea.BatchMsg:
		for _, one := range msg {
			s.do(one)
		}
	case tea.QuitMsg:
		s.quit = true
	default:
		s.send(msg)
	}
}

func (s *screen) send(msg tea.Msg) {
	_, c := s.m.Update(msg)
	s.do(c)
}

// refresh lets the pause end.
func (s *screen) refresh() {
	if s.source != nil {
		s.source.next()
	}
	s.send(s.next)
}

// specialKeys have the keys without a character.
var specialKeys = map[string]rune{"tab": tea.KeyTab, "enter": tea.KeyEnter, "esc": tea.KeyEscape, "up": tea.KeyUp,
	"down": tea.KeyDown, "left": tea.KeyLeft, "right": tea.KeyRight, "home": tea.KeyHome, "end": tea.KeyEnd,
	"pgup": tea.KeyPgUp, "pgdown": tea.KeyPgDown, "f1": tea.KeyF1, "f4": tea.KeyF4, "f6": tea.KeyF6,
	"f10": tea.KeyF10, "backspace": tea.KeyBackspace, "space": tea.KeySpace}

// keys presses keys, which are separated by spaces; "refresh" is not a key.
func (s *screen) keys(list string) {
	for _, k := range strings.Fields(list) {
		code, special := specialKeys[k]
		switch {
		case k == "refresh":
			s.refresh()
		case k == "ctrl+c":
			s.send(tea.KeyPressMsg{Code: 'c', Mod: tea.ModCtrl})
		case special:
			s.send(tea.KeyPressMsg{Code: code})
		default:
			for _, r := range k {
				s.send(tea.KeyPressMsg{Code: r, Text: string(r)})
			}
		}
	}
}

// text returns what the virtual terminal shows.
func (s *screen) text() string {
	content := s.m.View().Content
	require.LessOrEqual(s.t, strings.Count(content, "\n"), s.m.height-1, "lines")
	_, err := s.vt.WriteString("\x1b[2J\x1b[H" + strings.ReplaceAll(content, "\n", "\r\n"))
	require.NoError(s.t, err)
	lines := strings.Split(s.vt.String(), "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return strings.TrimRight(strings.Join(lines, "\n"), "\n") + "\n"
}

// golden compares screens with a file of testdata: one after each of the steps, which are keys.
func golden(t *testing.T, name string, s *screen, steps ...string) {
	t.Helper()
	var b strings.Builder
	for _, step := range steps {
		s.keys(step)
		fmt.Fprintf(&b, "=== %s\n%s", step, s.text())
	}
	file := filepath.Join("testdata", name+".txt")
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(b.String()), 0o666))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, string(want), b.String(), "%s; go test -update writes it anew", file)
}
