package verbs

import (
	"fmt"
	"net"
	"sync"

	"golang.org/x/sys/unix"
)

// Explanations reach not only the log: whoever connects to a socket in the
// directory gets those of programs of his own user, one in each datagram: the
// number of the process, a space, and a sentence. `nicless run --explain` prints
// them beside what the program says itself.

// WatchName is that socket.
const WatchName = "explain.sock"

// watchers are who is connected. Safe for concurrent use.
type watchers struct {
	mu  sync.Mutex
	all map[*net.UnixConn]uint32 // with his uid
}

// maxWatchers is how many there may be.
const maxWatchers = 256

// tell sends one explanation to all who may read it. Who does not read misses it.
func (w *watchers) tell(pid int32, uid uint32, format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.all) == 0 {
		return
	}
	line := fmt.Appendf(nil, "%d "+format, append([]any{pid}, args...)...)
	for conn, his := range w.all {
		if his != uid {
			continue
		}
		if raw, err := conn.SyscallConn(); err == nil {
			_ = raw.Control(func(fd uintptr) { _ = unix.Send(int(fd), line, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL) })
		}
	}
}

// accept takes connections until the listener is closed.
func (w *watchers) accept(l *net.UnixListener) {
	for {
		conn, err := l.AcceptUnix()
		if err != nil {
			return
		}
		cred, err := credentials(conn)
		w.mu.Lock()
		if err != nil || len(w.all) >= maxWatchers {
			_ = conn.Close()
		} else {
			if w.all == nil {
				w.all = make(map[*net.UnixConn]uint32)
			}
			w.all[conn] = cred.Uid
			go w.await(conn)
		}
		w.mu.Unlock()
	}
}

// await waits until a watcher goes. Watchers have nothing to say.
func (w *watchers) await(conn *net.UnixConn) {
	var b [1]byte
	_, _ = conn.Read(b[:])
	w.mu.Lock()
	delete(w.all, conn)
	w.mu.Unlock()
	_ = conn.Close()
}

// end disconnects everybody.
func (w *watchers) end(l *net.UnixListener) {
	_ = l.Close()
	w.mu.Lock()
	defer w.mu.Unlock()
	for conn := range w.all {
		_ = conn.CloseWrite()
		_ = conn.CloseRead()
	}
}
