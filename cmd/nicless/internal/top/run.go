//go:build linux && (amd64 || arm64)

package top

import (
	"context"
	"io"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/colorprofile"
)

// frames is how often in a second the terminal is brought up to date at most.
const frames = 20

// A Terminal is where the screen is shown.
type Terminal struct {
	In      io.Reader
	Out     io.Writer
	Environ []string // TERM, NO_COLOR and others, as os.Environ has them
	NoColor bool
	Size    func() (width, height int) // nil: that of Out, which is a terminal
}

// Hardware reports whether the environment names a terminal of hardware, as VT100, or none that is known: it
// has no colours, and no signs beyond ASCII.
func Hardware(environ []string) bool {
	name := ""
	for _, e := range environ {
		if value, ok := strings.CutPrefix(e, "TERM="); ok {
			name = value
		}
	}
	hardware := strings.HasPrefix(name, "vt") && !strings.HasPrefix(name, "vte")
	return hardware || name == "" || name == "dumb"
}

// Run shows a source on a terminal until the user quits, or ctx ends.
func Run(ctx context.Context, source Source, t Terminal, opt Options) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends the questions that are on their way
	if opt.Now == nil {
		opt.Now = time.Now
	}
	if opt.CPU == nil {
		opt.CPU = processorTime
	}
	if opt.After == nil {
		opt.After = func(d time.Duration, msg tea.Msg) tea.Cmd {
			return tea.Tick(d, func(time.Time) tea.Msg { return msg })
		}
	}
	options := []tea.ProgramOption{tea.WithContext(ctx), tea.WithInput(t.In), tea.WithOutput(t.Out),
		tea.WithEnvironment(t.Environ), tea.WithFPS(frames)}
	if t.NoColor || Hardware(t.Environ) {
		options = append(options, tea.WithColorProfile(colorprofile.ASCII))
	}
	if t.Size != nil {
		options = append(options, tea.WithWindowSize(t.Size()))
	}
	_, err := tea.NewProgram(New(ctx, source, opt), options...).Run()
	return err
}
