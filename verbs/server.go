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

	"github.com/nicless/nicless/engine"
	"github.com/nicless/nicless/internal/unixsock"
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
	if err := makeDirectory(dir); err != nil {
		return err
	}
	sock, err := listen(filepath.Join(dir, SocketName), cfg.Mode)
	if err != nil {
		return err
	}
	defer func() {
		unixsock.Close(sock)
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

// makeDirectory makes the directory, or takes over one that was left behind.
func makeDirectory(dir string) error {
	err := os.MkdirAll(filepath.Dir(dir), 0o755)
	if err == nil {
		err = unixsock.MakeDirectory(dir, 0o755)
	}
	if err != nil {
		return fmt.Errorf("verbs: %w", err)
	}
	return nil
}

// listen makes a socket in the directory. The engine that has the directory holds the
// lock of its own socket, so a socket that lies here was left behind.
func listen(path string, mode fs.FileMode) (*net.UnixListener, error) {
	if mode == 0 {
		mode = 0o600
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("verbs: socket left behind: %w", err)
	}
	l, err := unixsock.Listen(path, mode)
	if err != nil {
		return nil, fmt.Errorf("verbs: %w", err)
	}
	return l, nil
}

// accept serves programs until ctx ends, then ends them and what they have open.
func (s *Server) accept(ctx context.Context, sock *net.UnixListener) error {
	var all sync.WaitGroup
	defer func() { s.left = !engine.WaitFor(&all, engine.Patience) }()
	defer s.closeAll()
	next := unixsock.Acceptor{Listener: sock, Failed: func(err error) {
		s.report(engine.Nobody, nil, slog.LevelWarn, "verbs program not accepted", "error", err)
	}}
	for {
		conn, err := next.Next(ctx)
		switch {
		case err != nil:
			return fmt.Errorf("verbs: %w", err)
		case conn == nil:
			return nil
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
