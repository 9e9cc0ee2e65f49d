package programs

import (
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// Programs open the device twice, fork, and execute another program, in a child or in their
// own process.
func TestLives(t *testing.T) {
	t.Parallel()
	long(t)
	path := check(t, "life")
	need(t, "ibv_devinfo")
	for _, mode := range modesNow() {
		for _, line := range []string{"twice", "beside", "fork", "exec ibv_devinfo", "replace ibv_devinfo"} {
			t.Run(mode.name+"/"+line, func(t *testing.T) {
				l := newLab(t, mode.flags...)
				said := l.run(append([]string{path}, strings.Fields(line)...)...)
				if strings.HasSuffix(line, "ibv_devinfo") {
					require.Contains(t, said, "PORT_ACTIVE")
				}
				if !strings.HasPrefix(line, "replace") {
					require.Contains(t, said, "life: "+strings.Fields(line)[0]+": ok")
				}
				l.works()
			})
		}
	}
}

// The user nobody needs no privilege to run an engine and programs on it.
func TestNobody(t *testing.T) {
	t.Parallel()
	long(t)
	if os.Getuid() != 0 {
		t.Skip("needs root, to become the user nobody; the other tests have run without privileges")
	}
	need(t, "ibv_devinfo", "ib_write_bw")
	for _, mode := range modesNow() {
		t.Run(mode.name, func(t *testing.T) {
			l := &lab{t: t, flags: mode.flags, user: &syscall.Credential{Uid: 65534, Gid: 65534}}
			l.open()
			require.Contains(t, l.run("ibv_devinfo"), "PORT_ACTIVE")
			l.works()
			l.pair("ib_write_bw", "-d", "nicless0", "-F", "-n", "100")
		})
	}
}

// endless starts a pair of programs that move data until they are killed. It returns when both
// programs have moved some data.
func (l *lab) endless() (server, client *process) {
	l.t.Helper()
	need(l.t, "ib_send_bw", "stdbuf")
	// With -D and --run_infinitely both ends print a row every second; stdbuf has them flush it.
	server, client = l.startPair("stdbuf", "-oL", "ib_send_bw", "-d", "nicless0", "-F", "-D", "1", "--run_infinitely")
	for _, p := range []*process{server, client} {
		p.until(func(said string) bool { return len(measured(perftestRows(said))) > 0 })
	}
	return server, client
}

// A program is killed while it moves data. If its peer sends to it, the peer ends with an
// error. If its peer receives from it, the peer keeps waiting, as with hardware. The engine
// releases what the killed program had.
func TestClientKilled(t *testing.T) {
	t.Parallel()
	long(t)
	for _, mode := range modesNow() {
		t.Run(mode.name+"/receiver", func(t *testing.T) {
			l := newLab(t, mode.flags...)
			before := l.holds()
			receiver, sender := l.endless()
			receiver.kill()
			// Status 12 is transport retry counter exceeded. Status 11 is remote operation
			// error: the killed program's memory is gone and its queue pair is not gone yet.
			require.Regexp(t, "Failed status 1[12]", sender.fails())
			l.works()
			l.eventually("what both had is released", func() bool { return l.holds() == before })
		})
		t.Run(mode.name+"/sender", func(t *testing.T) {
			l := newLab(t, mode.flags...)
			before := l.holds()
			receiver, sender := l.endless()
			sender.kill()
			l.works()
			select {
			case <-receiver.done:
				require.Fail(t, "ended", "the receiver has ended (%v):\n%s", receiver.err, receiver.said.String())
			default:
			}
			receiver.kill()
			l.eventually("what both had is released", func() bool { return l.holds() == before })
		})
	}
}

// A program that has objects is killed, again and again.
func TestHoldersKilled(t *testing.T) {
	t.Parallel()
	long(t)
	path := check(t, "life")
	l := newLab(t)
	before := l.holds()
	for range 20 {
		p := l.start(path, "hold")
		p.says("life: holds")
		p.kill()
		<-p.done
	}
	l.eventually("what the killed ones had is released", func() bool { return l.holds() == before })
	l.works()
}

// The engine is killed while programs use it. The programs end with an error and do not hang,
// and other programs start cleanly on the next engine, at the same path.
func TestEngineKilled(t *testing.T) {
	t.Parallel()
	long(t)
	for _, mode := range modesNow() {
		t.Run(mode.name, func(t *testing.T) {
			l := newLab(t, mode.flags...)
			server, client := l.endless()
			l.engine.kill()
			<-l.engine.done
			require.Contains(t, client.fails(), "nicless: the engine has gone")
			require.Contains(t, server.fails(), "nicless: the engine has gone")
			l.startEngine()
			l.works()
		})
	}
}

// The engine is asked to end while programs use it.
func TestEngineStopped(t *testing.T) {
	t.Parallel()
	long(t)
	l := newLab(t)
	server, client := l.endless()
	require.NoError(t, l.engine.cmd.Process.Signal(syscall.SIGTERM))
	l.engine.succeeds()
	// The programs' work is flushed first. They may notice this before the end of the engine.
	require.Regexp(t, "nicless: the engine has gone|Failed status 5", client.fails())
	require.Regexp(t, "nicless: the engine has gone|completion with Error", server.fails())
	l.startEngine()
	l.works()
}
