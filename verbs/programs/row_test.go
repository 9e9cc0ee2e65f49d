package programs

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/nicless/nicless/internal/freeport"
	"github.com/nicless/nicless/internal/races"
	"github.com/nicless/nicless/internal/share"
	"github.com/stretchr/testify/require"
)

// A row of the matrix is a program, or a server and its client, that has to work in all
// places. In command lines ADDR and PORT stand for the address and the port of the server, IP
// for the host's address on a network, and DIR for an empty directory.
type row struct {
	server string    // none if a program works alone
	ready  readiness // when the client may start; nil: at once
	client string
	says   []string    // regular expressions for what the client prints
	hears  []string    // the same for the server
	alone  *sync.Mutex // held while the row runs: others use the same port
	stays  bool        // the server serves other clients too: it is killed when the client has ended
	addr   string      // in place of 127.0.0.1
	long   bool        // runs in the first place and the last, which differ in all respects
	more   bool        // runs in the first place only: the program runs elsewhere by another row
	quick  bool        // runs also without -programs, in the first place
	then   func(t *testing.T, dir string)
}

// A readiness waits until a server is ready for its client.
type readiness func(l *lab, server *process, port int)

// listensTCP waits until the server listens on the TCP port.
func listensTCP(_ *lab, server *process, port int) { listens(server, port) }

// calls waits until the server has made a call, by the engine's log. pattern is a regular
// expression for what the log says after the program's number.
func calls(pattern string) readiness {
	line := regexp.MustCompile(`program="pid (\d+) .*` + pattern)
	return func(l *lab, server *process, _ int) {
		l.t.Helper()
		looked := -1
		server.awaits("it makes the call "+pattern, func() bool {
			ended := server.ended()
			if n := l.engine.said.Len(); n != looked {
				looked = n
				for _, m := range line.FindAllStringSubmatch(l.engine.said.String(), -1) {
					pid, _ := strconv.Atoi(m[1])
					if group, err := syscall.Getpgid(pid); err == nil && group == server.cmd.Process.Pid {
						return true
					}
				}
			}
			if ended && l.engine.said.Len() == looked {
				require.FailNow(l.t, "does not make the call", "ended (%v) without the call %s: %v", server.err, pattern, server.job())
			}
			return false
		})
	}
}

// listensCM waits until the server listens by rdma_cm. A client that connects earlier is
// rejected, as on hardware. joins waits until the server has joined a multicast group.
var (
	listensCM = calls("command=LISTEN result=<nil>")
	joins     = calls("call=WRITE.ATTACH_MCAST result=ok")
)

// name is the row's name as a test.
func (r row) name() string {
	var words []string
	for _, word := range strings.Fields(strings.NewReplacer(" PORT", "", " ADDR", "", "env ", "").Replace(r.client)) {
		words = append(words, filepath.Base(word))
	}
	return strings.Join(words, " ")
}

var hasIP = regexp.MustCompile(`\bIP\b`)

// run runs the row on an engine, and again if it fails by a race in the table of package races.
func (r row) run(l *lab) {
	l.t.Helper()
	port, dir, addr := freeport.TCP(l.t), l.t.TempDir(), r.addr
	if addr == "" {
		addr = "127.0.0.1"
	}
	words := strings.NewReplacer("ADDR", addr, "PORT", itoa(port), "DIR", dir)
	argv := func(at *lab, line string) []string {
		if at.words != nil {
			line = at.words.Replace(line)
		}
		if hasIP.MatchString(line) {
			line = hasIP.ReplaceAllString(line, hostAddress(l.t))
		}
		list := strings.Fields(words.Replace(line))
		for i, word := range list {
			if i == 0 || strings.Contains(list[i-1], "=") || list[i-1] == "env" {
				if !strings.Contains(word, "=") && word != "env" {
					need(l.t, word)
					break
				}
			}
		}
		return list
	}
	l.t.Cleanup(func() {
		for _, at := range []*lab{l, l.far} {
			if l.t.Failed() && l.far != nil && at.engine != nil {
				l.t.Logf("the engine at %s says:\n%s", at.socket, tail(at.engine.said.String()))
			}
		}
	})
	var server *process
	if r.server != "" {
		server = l.start(argv(l, r.server)...)
		if r.ready != nil {
			r.ready(l, server, port)
		}
	}
	at := l
	if l.far != nil {
		at = l.far
	}
	client := at.start(argv(at, r.client)...)
	if server != nil {
		together(server, client)
	}
	if r.raced(client, server) {
		client.kill()
		server.kill()
		r.run(l)
		return
	}
	said := client.ends(server)
	for _, want := range r.says {
		require.Regexp(l.t, want, said, "the client")
	}
	if server == nil {
		return
	}
	heard := ""
	if r.stays {
		server.kill()
		<-server.done
		heard = server.said.String()
	} else {
		heard = server.succeeds()
	}
	for _, want := range r.hears {
		require.Regexp(l.t, want, heard, "the server")
	}
	if r.then != nil {
		r.then(l.t, dir)
	}
}

// raced waits until the client has ended, or the server has failed, and reports whether one of them has
// failed by a race of the program's own.
func (r row) raced(client, server *process) bool {
	ends := []*process{client}
	if server != nil && !r.stays {
		ends = append(ends, server)
	}
	failed := func(p *process) bool { return p.ended() && p.err != nil }
	client.awaits("it ends", func() bool { return client.ended() || slices.ContainsFunc(ends, failed) })
	if client.ended() && client.err == nil && len(ends) > 1 {
		server.awaits("it ends", server.ended)
	}
	return slices.ContainsFunc(ends, func(p *process) bool {
		return failed(p) && races.Found(p.t, p.cmd.Args, p.said.String())
	})
}

// ends waits for the end of a client, requires status 0 and returns the output. A failure
// shows what both ends have printed.
func (p *process) ends(server *process) string {
	p.t.Helper()
	err := p.wait()
	heard := ""
	if server != nil {
		heard = fmt.Sprintf("\nits server %s said:\n%s", server.cmd, server.said.String())
	}
	require.NoError(p.t, err, "%s\n%s%s", p.cmd, p.said.String(), heard)
	return p.said.String()
}

// runs reports whether the row with this index runs in the place with this index, of so many. A row of one
// place runs there in every share.
func (r *row) runs(index, place, places int) bool {
	later, between := place > 0, place > 0 && place < places-1
	leftOut := (r.more && later) || (r.long && between)
	return !leftOut && (*whole || r.quick) && (r.more || share.Has(index, place))
}

// matrix runs rows in all places, several side by side.
func matrix(t *testing.T, rows []row, engineFlags ...string) {
	t.Helper()
	quick := func(r row) bool { return r.quick }
	if !*whole && !slices.ContainsFunc(rows, quick) {
		long(t)
	}
	all := places()
	for i, p := range all {
		if !*whole && i > 0 {
			break
		}
		var now []row
		for index, r := range rows {
			if r.runs(index, i, len(all)) {
				now = append(now, r)
			}
		}
		if len(now) == 0 {
			continue
		}
		t.Run(p.name, func(t *testing.T) {
			l := newLabAt(t, p, engineFlags...)
			for _, r := range now {
				t.Run(r.name(), func(t *testing.T) {
					t.Parallel()
					if r.alone != nil {
						r.alone.Lock()
						t.Cleanup(r.alone.Unlock) // after the server has been killed, if the row fails
					}
					r.run(l.with(t))
				})
			}
		})
	}
}
