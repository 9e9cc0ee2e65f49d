package programs

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/nicless/nicless/internal/freeport"
	"github.com/nicless/nicless/internal/share"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// An endurance is two ends of verbs/check/endure.c, which check all that they exchange. The server
// runs on the near engine, the client on the far one.
type endurance struct {
	server, client *process
	stop           string // a file: when it exists, the client ends
}

// Timeouts of queue pairs, as codes: eight tries last for 2 s and 33 s.
const brief, long33s = "14", "18"

// endure starts both ends and waits until they have begun.
func (l *lab) endure(p linkedPlace, timeout string) endurance {
	l.t.Helper()
	path, port, addr := check(l.t, "endure"), freeport.TCP(l.t), "127.0.0.1"
	if p.apart {
		addr = nearAddress
	}
	e := endurance{stop: filepath.Join(l.t.TempDir(), "stop")}
	e.server = l.start(path, "serve", itoa(port), p.gid, timeout, e.stop)
	listens(e.server, port)
	e.client = l.far.start(path, "connect", addr, itoa(port), p.gid, timeout, e.stop)
	e.goesOn()
	return e
}

// rounds returns how many rounds a program has done, by the last line that it has printed.
func rounds(said string) int {
	at := strings.LastIndex(said, "endure: at ")
	if at < 0 {
		return -1
	}
	number, _, _ := strings.Cut(said[at+len("endure: at "):], "\n")
	n, _ := strconv.Atoi(number)
	return n
}

// goesOn waits until both ends have done 20 more rounds.
func (e endurance) goesOn() {
	for _, p := range []*process{e.client, e.server} {
		p.t.Helper()
		now := max(rounds(p.said.String()), 0)
		p.until(func(said string) bool { return rounds(said) >= now+20 })
	}
}

// stops waits until the client reports that it is where it was before.
func (e endurance) stops() {
	e.client.t.Helper()
	last, reports := -1, 0
	e.client.until(func(said string) bool {
		if now := rounds(said); now != last {
			last, reports = now, strings.Count(said, "endure: at ")
		}
		return strings.Count(said, "endure: at ") >= reports+5
	})
}

// ends lets the client end. All that it has sent has arrived once.
func (e endurance) ends(t *testing.T) {
	t.Helper()
	require.NoError(t, os.WriteFile(e.stop, nil, 0o600))
	require.Regexp(t, `endure: \d+ rounds: ok\n`, e.client.ends(e.server))
	require.Regexp(t, `endure: \d+ rounds: ok\n`, e.server.succeeds())
}

// silent waits for the end of a program whose peer does not answer any more.
func silent(t *testing.T, p *process) {
	t.Helper()
	require.Regexp(t, `endure: status 12 \(transport retry counter exceeded\) after \d+ rounds\n$`, p.fails())
	require.Equal(t, 6, p.cmd.ProcessState.ExitCode(), "no answer")
}

// again checks that new connections work.
func (l *lab) again(p linkedPlace) {
	l.t.Helper()
	l.endure(p, long33s).ends(l.t)
}

// The carrier of packets is killed or cut while a program checks all data. No data is corrupt,
// lost or there twice; connections go on if the link is back in time, and end with retry errors
// if not; and the engines that are left serve new connections.
func TestLinkedDeaths(t *testing.T) {
	t.Parallel()
	long(t)
	for i, p := range linkedPlaces {
		if p.name == "pool, apart" {
			continue // as in a pool on one host
		}
		t.Run(p.name, func(t *testing.T) {
			l := newLinked(t, p)
			for j, d := range []struct {
				what  string
				dies  func(*lab, linkedPlace)
				there bool
			}{
				{"client", clientDies, true}, {"server", serverDies, true}, {"engine", engineDies, true},
				{"cable", cableIsCut, p.apart}, {"carrier", carrierDies, p.link == "ucx"},
				{"carrier, without a cable", carrierBeginsWithoutACable, p.link == "ucx"},
			} {
				if d.there && share.Has(i, j) {
					t.Run(d.what, func(t *testing.T) { d.dies(l.with(t), p) })
				}
			}
			if p.link != "" {
				l.linked()
			}
			l.again(p)
		})
	}
}

func clientDies(l *lab, p linkedPlace) {
	e := l.endure(p, brief)
	e.client.kill()
	silent(l.t, e.server)
	l.again(p)
}

func serverDies(l *lab, p linkedPlace) {
	e := l.endure(p, brief)
	e.server.kill()
	silent(l.t, e.client)
	l.again(p)
}

// The engine of one side is killed; another takes its place.
func engineDies(l *lab, p linkedPlace) {
	l = newLinked(l.t, p)
	e := l.endure(p, brief)
	l.far.engine.kill()
	<-l.far.engine.done
	silent(l.t, e.server)
	require.Contains(l.t, e.client.fails(), "nicless: the engine has gone")
	l.far.startEngine()
	if p.link != "" {
		l.far.linked()
		l.linked()
	}
	l.again(p)
}

// The cable is cut, and comes back: the first time before the retries run out, the second time after.
func cableIsCut(l *lab, p linkedPlace) {
	e := l.endure(p, long33s)
	for range 2 {
		l.cable("down")
		e.stops()
		l.cable("up")
		e.goesOn()
	}
	e.ends(l.t)

	e = l.endure(p, brief)
	l.cable("down")
	silent(l.t, e.client)
	l.cable("up")
	e.server.kill()
	if p.link != "" {
		l.linked()
	}
	l.again(p)
}

// The process that carries packets over UCX is killed, on either side. The engine starts another.
func carrierDies(l *lab, p linkedPlace) {
	e := l.endure(p, long33s)
	for range 2 {
		for _, end := range []*lab{l, l.far} {
			end.killCarrier()
			e.goesOn()
		}
	}
	e.ends(l.t)
}

// UCX is started while the network interface is down. It reads the list of interfaces only once.
func carrierBeginsWithoutACable(l *lab, p linkedPlace) {
	for _, end := range []*lab{l, l.far} {
		e := l.endure(p, long33s)
		l.cable("down")
		end.killCarrier()
		l.cable("up")
		e.goesOn()
		e.ends(l.t)
	}
}

// cable brings the network interface at the servers' end up or down.
func (l *lab) cable(state string) {
	l.t.Helper()
	start(l.t, nil, append(l.inside[:len(l.inside):len(l.inside)], "ip", "link", "set", "near0", state)...).succeeds()
}

// killCarrier kills the process that carries packets, and waits until UCX works in another.
func (l *lab) killCarrier() {
	l.t.Helper()
	pid, works := l.carrier(), strings.Count(l.engine.said.String(), `msg="UCX works"`)
	require.NoError(l.t, unix.Kill(pid, unix.SIGKILL))
	l.engine.until(func(said string) bool { return strings.Count(said, `msg="UCX works"`) > works })
}

// carrier returns the number of the process that carries packets over UCX, 0 if there is none.
func (l *lab) carrier() int {
	engine := l.engine.cmd.Process.Pid
	list, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", engine, engine))
	all, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", engine))
	for _, f := range all {
		more, _ := os.ReadFile(f)
		list = append(list, more...)
	}
	for _, word := range strings.Fields(string(list)) {
		pid, _ := strconv.Atoi(word)
		if name, _ := os.ReadFile(filepath.Join("/proc", word, "comm")); string(name) == "nicless-ucx\n" {
			return pid
		}
	}
	return 0
}
