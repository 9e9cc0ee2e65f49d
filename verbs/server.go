package verbs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/nicless/nicless/engine"
	"golang.org/x/sys/unix"
)

// Config says what is served.
type Config struct {
	Devices int          // how many; 0: 1
	Mode    fs.FileMode  // permission bits of the socket: who may connect; 0: 0600
	Log     *slog.Logger // nil: nothing is said
}

// MaxDevices is how many devices there may be.
const MaxDevices = 32

// SocketName is the socket in the directory that is served.
const SocketName = "server.sock"

// A Server is the devices that programs open.
type Server struct {
	engine  *engine.Engine
	devices []*device
	clock   *clockPage
	log     *slog.Logger
	watched watchers
	clogged func(uid uint32) bool // engine.Clogged, but in tests

	mu       sync.Mutex
	contexts map[uint64]*uctx // by the inode of their socket
	closed   bool             // no more contexts are made
	left     bool             // something serves a connection still, after the end; accept's
}

// Serve makes the directory dir with a socket and a tree of files, and serves
// programs that come there until ctx ends. ready, unless nil, is called once they
// can. The engine must be running as long.
func Serve(ctx context.Context, dir string, e *engine.Engine, cfg Config, ready func()) error {
	s, err := newServer(e, cfg)
	if err != nil {
		return err
	}
	defer func() {
		if !s.left {
			s.clock.close()
		}
	}()
	if err := own(dir); err != nil {
		return err
	}
	sock, err := listen(filepath.Join(dir, SocketName), cfg.Mode)
	if err != nil {
		return err
	}
	defer func() {
		unlisten(sock)
		_ = errors.Join(os.RemoveAll(filepath.Join(dir, treeName)), os.Remove(dir)) // it is removed if nothing else is there
	}()
	watch, err := listen(filepath.Join(dir, WatchName), cfg.Mode)
	if err != nil {
		return err
	}
	defer s.watched.end(watch)
	go s.watched.accept(watch)
	if err := s.plant(dir); err != nil {
		return err
	}
	if ready != nil {
		ready()
	}
	return s.accept(ctx, sock)
}

// own makes the directory, or takes over one that was left behind. Where everybody may
// write, another user may have made it, or a link of that name, and so would choose
// where files are written and removed.
func own(dir string) error {
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return fmt.Errorf("verbs: %w", err)
	}
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("verbs: %w", err)
	}
	var st unix.Stat_t
	if err := unix.Lstat(dir, &st); err != nil {
		return fmt.Errorf("verbs: %s: %w", dir, err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR || int(st.Uid) != os.Geteuid() || st.Mode&0o022 != 0 {
		return fmt.Errorf("verbs: %s: it exists, of user %d with mode %#o; it has to be a directory of user %d that nobody else may write to",
			dir, st.Uid, st.Mode, os.Geteuid())
	}
	return nil
}

func newServer(e *engine.Engine, cfg Config) (*Server, error) {
	if cfg.Devices == 0 {
		cfg.Devices = 1
	}
	if cfg.Devices < 1 || cfg.Devices > MaxDevices {
		return nil, fmt.Errorf("verbs: %d devices; 1 to %d are possible", cfg.Devices, MaxDevices)
	}
	s := &Server{engine: e, log: cfg.Log, watched: watchers{engine: e}, clogged: e.Clogged, contexts: make(map[uint64]*uctx)}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	for i := range cfg.Devices {
		s.devices = append(s.devices, newDevice(uint32(i), e.GUID()))
	}
	var err error
	s.clock, err = newClockPage()
	return s, err
}

// listen makes the socket. The directory is the engine's, who has a lock: what
// lies there is left behind.
func listen(path string, mode fs.FileMode) (*net.UnixListener, error) {
	if mode == 0 {
		mode = 0o600
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("verbs: socket left behind: %w", err)
	}
	// The file gets the mode of the descriptor: nobody connects before chmod.
	private := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) (err error) {
		return errors.Join(raw.Control(func(fd uintptr) { err = unix.Fchmod(int(fd), 0) }), err)
	}}
	l, err := private.Listen(context.Background(), "unixpacket", path)
	if err != nil {
		return nil, fmt.Errorf("verbs: socket: %w", err)
	}
	// A program cannot send descriptors before it is let in. Before Linux 6.16 the
	// kernel cannot refuse them.
	if err := engine.PassRights(l.(*net.UnixListener), false); err != nil && !errors.Is(err, unix.ENOPROTOOPT) {
		_ = l.Close()
		return nil, fmt.Errorf("verbs: socket: %w", err)
	}
	if err := os.Chmod(path, mode.Perm()); err != nil {
		_ = l.Close()
		return nil, fmt.Errorf("verbs: socket: %w", err)
	}
	return l.(*net.UnixListener), nil
}

// unlisten ends a socket. What lies in connections that nobody has accepted may hold
// its descriptor up, before Linux 6.16: nobody waits for that.
func unlisten(l *net.UnixListener) {
	l.SetUnlinkOnClose(false)
	_ = os.Remove(l.Addr().String())
	go l.Close()
}

// accept serves programs until ctx ends, then ends them and what they have open.
func (s *Server) accept(ctx context.Context, sock *net.UnixListener) error {
	var all sync.WaitGroup
	defer func() { s.left = !engine.WaitFor(&all, engine.Patience) }()
	defer s.closeAll()
	stop := context.AfterFunc(ctx, func() { _ = sock.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	for {
		conn, err := sock.AcceptUnix()
		switch {
		case ctx.Err() != nil:
			if conn != nil {
				go conn.Close()
			}
			return nil
		case err != nil && !engine.Passing(err):
			return fmt.Errorf("verbs: accept: %w", err)
		case err != nil:
			s.report(engine.Nobody, nil, slog.LevelWarn, "verbs program not accepted", "error", err)
			select {
			case <-ctx.Done():
			case <-time.After(100 * time.Millisecond):
			}
			continue
		}
		all.Add(1)
		go func() {
			defer all.Done()
			s.serve(ctx, conn)
		}()
	}
}

// closeAll ends every context, and those that are being made: its device is gone.
func (s *Server) closeAll() {
	s.mu.Lock()
	s.closed = true
	var open []*uctx
	for _, x := range s.contexts {
		open = append(open, x)
	}
	s.mu.Unlock()
	for _, x := range open {
		x.fatal()
		x.end()
	}
}
