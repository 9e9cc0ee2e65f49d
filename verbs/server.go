//go:build linux && (amd64 || arm64)

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
	"time"

	"github.com/nicless/nicless/engine"
	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/internal/unixsock"
	"github.com/nicless/nicless/verbs/internal/cm"
)

// A Config configures Serve. Its zero value serves one device to programs of this process's
// own user. The devices have the names of engine.Config.DeviceNames and successive GUIDs, from the engine's.
type Config struct {
	Devices int          // number of devices, 1 to MaxDevices; 0 means 1
	Links   []Link       // link layers of the devices, in turn; none means Ethernet
	Mode    fs.FileMode  // permission bits of the sockets, which decide which users may connect; 0 means 0600
	Log     *slog.Logger // nil means that nothing is logged
	Fabric  Fabric       // leads to other engines and hosts; nil means that there are none
	// NoDEVX is whether programs get no firmware commands when libmlx5 asks for them, which it always
	// does. With them UCX, for example, makes its queues by DEVX. nicless run --devx and --no-devx say
	// otherwise for one program.
	NoDEVX bool
	// GuardPosts is whether the send queues of programs are guarded, because something posts there that
	// may store the bytes of a WQE after the doorbell record and the register, as a GPU does. nicless run
	// --guard-posts and --no-guard-posts say otherwise for one program.
	GuardPosts bool
}

// MaxDevices is the most devices that Serve serves. Each is at a port of the engine's device.
const MaxDevices = nic.MaxPorts

// SocketName is the name of the socket to which programs connect. It is in the directory that
// Serve makes.
const SocketName = "server.sock"

// A Server serves devices to programs.
type Server struct {
	engine        nic.Device
	devices       []*device
	dir           string    // directory that Serve makes; "" in tests without files
	made          time.Time // time of all files in dir
	networks      networks
	watch         addressWatch
	nowhere       *netns // namespace of programs that have sent no addresses
	clock         *clockPage
	log           *slog.Logger
	watched       watchers
	silent        *unixsock.Waiter
	clogged       func(uid uint32) bool // nic.Device.Clogged, except in tests
	manager       *cm.Manager
	mads          mads
	fabric        Fabric // nil: there is none
	devx          bool   // not Config.NoDEVX
	guardPosts    bool   // Config.GuardPosts
	announced     announcement
	paths         pathUses
	subscriptions subscriptions
	domains       sharedDomains
	netlink       netlinks
	counted       trafficCache // what the clients of all ports have sent and received

	mu       sync.Mutex
	contexts map[uint64]*uctx      // contexts, by the inode of their socket
	channels map[uint64]*cmChannel // channels of rdma_cm, by the inode of their pipe
	pipes    pipeUsers
	closed   bool // no more contexts are made
	left     bool // a connection was still being served when accept returned
}

// Serve makes the directory dir with two sockets and a tree of files, and serves programs
// that connect there until ctx ends; then it removes the directory and returns nil. ready,
// unless nil, is called when programs can connect. The engine must be running
// (engine.Engine.Run) before the call and until Serve has returned. dir may exist already if
// it belongs to this user and no other user may write in it. Only one process may serve a
// directory at a time.
func Serve(ctx context.Context, dir string, e *engine.Engine, cfg Config, ready func()) error {
	s, err := newServer(nic.Of(e), cfg)
	if err != nil {
		return err
	}
	defer func() {
		if !s.left {
			s.close()
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
		_ = errors.Join(removeTrees(dir), os.Remove(dir)) // dir stays if something else is in it
	}()
	watch, err := listen(filepath.Join(dir, WatchName), cfg.Mode)
	if err != nil {
		return err
	}
	defer s.watched.end(watch)
	go s.watched.accept(watch)
	if err := s.writeTrees(dir); err != nil {
		return err
	}
	defer s.watchAddresses(ctx)() // which ends before the directory goes
	defer s.renewCounters()()
	if ready != nil {
		ready()
	}
	return s.accept(ctx, sock)
}

func newServer(e nic.Device, cfg Config) (*Server, error) {
	if cfg.Devices == 0 {
		cfg.Devices = 1
	}
	if cfg.Devices < 1 || cfg.Devices > MaxDevices {
		return nil, fmt.Errorf("verbs: %d devices; 1 to %d are possible", cfg.Devices, MaxDevices)
	}
	if len(cfg.Links) == 0 {
		cfg.Links = []Link{Ethernet}
	}
	for _, l := range cfg.Links {
		if l != Ethernet && l != InfiniBand {
			return nil, fmt.Errorf("verbs: link layer %q; %s and %s are possible", l, Ethernet, InfiniBand)
		}
	}
	names := e.DeviceNames()
	if err := names.Check(cfg.Devices); err != nil {
		return nil, fmt.Errorf("verbs: %w", err)
	}
	if err := engine.CheckGUID(e.GUID(), cfg.Devices); err != nil {
		return nil, fmt.Errorf("verbs: %w", err)
	}
	s := &Server{engine: e, log: cfg.Log, watched: watchers{engine: e}, clogged: e.Clogged,
		fabric: cfg.Fabric, devx: !cfg.NoDEVX, guardPosts: cfg.GuardPosts,
		contexts: make(map[uint64]*uctx), nowhere: newNetns(netnsKey{})}
	s.nowhere.scan(nil)
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	lid := chooseLIDs(e.GUID(), cfg.Devices, takenLIDs(cfg.Fabric))
	for i, place := range freePlaces(cfg.Devices) {
		d := newDevice(uint32(i), names.Of(uint8(i)), e.GUID(), place)
		d.linked(cfg.Links[i%len(cfg.Links)], lid)
		d.port = func() nic.PortState { return e.PortState(uint8(i)) }
		s.devices = append(s.devices, d)
	}
	s.netlink.init()
	s.netlink.counters, s.mads.counters = s.netlinkCounters, s.madCounters
	s.mads.files, s.mads.reset = make(map[uint64]*madFile), make(map[counterOf]uint64)
	s.channels = make(map[uint64]*cmChannel)
	s.manager = cm.New(s.managerConfig())
	var err error
	s.silent, err = unixsock.NewWaiter()
	if err != nil {
		return nil, fmt.Errorf("verbs: %w", err)
	}
	s.clock, err = newClockPage()
	if err != nil {
		s.silent.Close()
		return nil, err
	}
	if w, ok := s.manager.Wire.(*cmWire); ok {
		s.fabric.SetManagement(w.receive)
		s.fabric.SetNotes(w.notes)
		s.fabric.SetLocal(s.hasPort)
		s.announce()
	}
	return s, nil
}

// close frees what newServer has made. No connection is served any more.
func (s *Server) close() {
	if s.fabric != nil {
		s.fabric.SetManagement(nil)
		s.fabric.SetNotes(nil)
	}
	s.clock.close()
	s.silent.Close()
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

// listen makes a socket in the directory. Only one process serves a directory at a time (see
// Serve): an engine holds the lock of its control socket for as long as it uses the directory
// that is named after that socket. So a socket that is already in the directory was left
// behind.
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

// accept serves programs until ctx ends, then ends their connections and contexts.
func (s *Server) accept(ctx context.Context, sock *net.UnixListener) error {
	var all sync.WaitGroup
	defer func() { s.left = !unixsock.WaitFor(&all, unixsock.Patience) }()
	defer s.closeAll()
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	defer s.farewell()
	next := unixsock.Acceptor{Listener: sock, Failed: func(err error) {
		s.report(nic.UnknownUser, nil, slog.LevelWarn, "verbs program not accepted", "error", err)
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
			s.serve(serving, conn)
		}()
	}
}

// closeAll notifies every program that its device is gone, and ends every context. From now on
// newContext returns an error, also for a request that is being served already.
func (s *Server) closeAll() {
	s.mu.Lock()
	s.closed = true
	var open []*uctx
	for _, x := range s.contexts {
		open = append(open, x)
	}
	s.mu.Unlock()
	s.closeChannels()
	s.closeNetlinks()
	s.closeMADs()
	for _, x := range open {
		x.fatal()
		x.end()
	}
}
