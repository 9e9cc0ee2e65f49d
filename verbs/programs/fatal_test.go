package programs

import (
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// A program that reads asynchronous events hears of the end of its engine by DEVICE_FATAL, as when a
// driver goes, and goes on, also on the next engine. One that reads none is ended, because it would spin
// for ever.
func TestDeviceFatal(t *testing.T) {
	t.Parallel()
	path := check(t, "fatal")
	for name, end := range map[string]func(l *lab){
		"killed": func(l *lab) { l.engine.kill(); <-l.engine.done },
		"stopped": func(l *lab) {
			require.NoError(l.t, l.engine.cmd.Process.Signal(syscall.SIGTERM))
			l.engine.succeeds()
		},
	} {
		for _, how := range []string{"event", "poll", "channel", "again", "deaf"} {
			t.Run(name+"/"+how, func(t *testing.T) {
				t.Parallel()
				if how != "event" && how != "deaf" || name != "killed" {
					long(t)
				}
				l := newLab(t)
				p := l.start(path, how)
				p.says("fatal: waits")
				end(l)
				if how == "deaf" {
					require.Contains(t, p.fails(), "nicless: the program has not read its last event, DEVICE_FATAL, within 2 s")
					return
				}
				if how == "again" {
					p.says("fatal: heard")
					l.startEngine()
				}
				said := p.succeeds()
				require.Contains(t, said, "fatal: heard")
				require.Contains(t, said, "nicless: the engine has gone")
				require.Contains(t, said, "fatal: ok")
			})
		}
	}
}
