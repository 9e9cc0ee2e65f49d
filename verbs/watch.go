//go:build linux && (amd64 || arm64)

package verbs

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"

	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/internal/unixsock"
	"golang.org/x/sys/unix"
)

// A watcher is a process that connects to a second socket to read explanations: the lines
// that the log has about programs of the watcher's own user. The first datagram is Watching.
// Each of the others has the lineage of a program, a space, and a sentence; or Began or Ended
// and a lineage. A watcher that waits for as many ends as there were beginnings of a process
// has all sentences about it, however late this server learns that the process has ended.
// `nicless run --explain` prints the sentences about programs that it has started, and about
// their descendants.

const (
	// WatchName is the name of the socket to which watchers connect. It is in the directory that
	// Serve makes.
	WatchName = "explain.sock"
	// Watching is the first datagram. Explanations of programs that begin after it has come are not missed.
	Watching = "watching"
	// Began is the begin of a datagram: a process has connected, or opened a device.
	Began = "+ "
	// Ended is the begin of a datagram: the end of that, after its last explanation.
	Ended = "- "
)

// watchers are the connections of watchers. Safe for concurrent use.
type watchers struct {
	engine nic.Device
	mu     sync.Mutex
	all    map[*net.UnixConn]uint32 // each with the uid of its watcher
}

// maxWatchers is the most watchers at a time. A user gets another watcher only if the number
// of watchers that the user has is less than the number of free places.
const maxWatchers = 256

// lineage returns the process numbers of a process, its parent, the parent's parent and so
// on, with commas between them. The server reads it when the program has connected and
// waits for an answer. Later the program or a parent may have ended. Then a watcher that had
// only the program's number could not find the command that started the program.
func lineage(pid int32) string {
	list := strconv.Itoa(int(pid))
	for range mostAncestors {
		if pid = parentOf(pid); pid <= 0 {
			break
		}
		list += "," + strconv.Itoa(int(pid))
	}
	return list
}

// mostAncestors bounds a lineage, and so a line.
const mostAncestors = 64

// parentOf returns the process number of a process's parent. It returns 0 if the process has
// ended or has no parent.
func parentOf(pid int32) int32 {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	// The program's name is in parentheses and may contain parentheses itself.
	rest := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:])) // state, parent, ...
	if len(rest) < 2 {
		return 0
	}
	parent, _ := strconv.ParseInt(rest[1], 10, 32)
	return int32(parent)
}

// send sends one explanation about the program with this lineage to the watchers of a user. A watcher misses
// it if earlier explanations that the watcher has not read fill its socket.
func (w *watchers) send(lineage string, uid uint32, format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.all) == 0 {
		return
	}
	w.sendLine(uid, fmt.Appendf(nil, "%s "+format, append([]any{lineage}, args...)...))
}

// note sends that something of the program with this lineage began or ended (Began, Ended).
func (w *watchers) note(begin, lineage string, uid uint32) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sendLine(uid, []byte(begin+lineage))
}

// sendLine sends a line to the watchers of a user. The caller holds mu.
func (w *watchers) sendLine(uid uint32, line []byte) {
	for conn, owner := range w.all {
		if owner == uid {
			sendTo(conn, line)
		}
	}
}

func sendTo(conn *net.UnixConn, line []byte) {
	_ = unixsock.Control(conn, func(fd int) error {
		return unix.Send(fd, line, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
	})
}

// accept takes connections until the listener is closed.
func (w *watchers) accept(l *net.UnixListener) {
	next := unixsock.Acceptor{Listener: l}
	for {
		conn, err := next.Next(context.Background())
		if err != nil {
			return
		}
		cred, err := unixsock.Credentials(conn)
		if err != nil {
			_ = conn.Close()
			continue
		}
		if err := w.engine.Incur(cred.Uid, watcherCost); err != nil || !w.add(conn, cred.Uid) {
			w.engine.DiscardConnection(cred.Uid, conn, watcherCost)
		}
	}
}

var watcherCost = nic.Cost{Descriptors: 1}

// add adds a watcher, unless its user has at least as many watchers as there are free places.
func (w *watchers) add(conn *net.UnixConn, uid uint32) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	same := 0
	for _, owner := range w.all {
		if owner == uid {
			same++
		}
	}
	if same >= maxWatchers-len(w.all) {
		return false
	}
	if w.all == nil {
		w.all = make(map[*net.UnixConn]uint32)
	}
	sendTo(conn, []byte(Watching)) // before all others, which need mu
	w.all[conn] = uid
	go w.await(conn, uid)
	return true
}

// await waits until a watcher disconnects. It does not read what the watcher sends: reading
// would close descriptors that the watcher has sent, and closing one can block.
func (w *watchers) await(conn *net.UnixConn, uid uint32) {
	_ = conn.CloseRead()
	if raw, err := conn.SyscallConn(); err == nil {
		_ = raw.Read(func(fd uintptr) bool { return unixsock.HungUp(int(fd)) })
	}
	w.mu.Lock()
	delete(w.all, conn)
	w.mu.Unlock()
	w.engine.DiscardConnection(uid, conn, watcherCost)
}

// end disconnects all watchers.
func (w *watchers) end(l *net.UnixListener) {
	unixsock.Close(l)
	w.mu.Lock()
	defer w.mu.Unlock()
	for conn := range w.all {
		unixsock.HangUp(conn)
	}
}
