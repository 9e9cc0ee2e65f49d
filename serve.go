package nicless

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
)

// Serve runs an engine for other processes, which connect to it by [Dial] with the path of
// its unix socket. When ctx ends, Serve returns nil. mode is the socket's permission bits,
// which decide who may connect. If ready is not nil, Serve calls it as soon as clients can
// connect.
//
// Serve replaces a socket left behind by an engine that is gone. It is an error if an
// engine still answers at path. Before Serve returns, the engine executes or flushes the
// work that has been announced, and then disconnects the clients. Their calls return
// ErrDeviceGone at once, and their polls return it after the last completions.
func Serve(ctx context.Context, path string, mode fs.FileMode, cfg Config, ready func()) error {
	if cfg.Memory != nil {
		return errMemory
	}
	return serveSocket(ctx, path, mode, cfg, ready)
}

// ServeListener is Serve on a socket that exists already. The socket can come from a service
// manager (socket activation) or from net.ListenUnix, for instance. Its network must be
// "unixpacket". ServeListener closes l in all cases, also when it returns an error, but it
// does not remove the socket's file.
//
// For Config.VerbsDevices the socket must have a path. Only the user who runs the engine
// may use these devices.
func ServeListener(ctx context.Context, l *net.UnixListener, cfg Config, ready func()) error {
	if l == nil {
		return errors.New("nicless: serve: no listener (nil)")
	}
	l.SetUnlinkOnClose(false)
	// If an error occurs before the server has taken over l, l is closed here. That is done
	// on another goroutine, because connections that were not accepted may hold descriptors
	// that are slow to close.
	defer func() { go l.Close() }()
	path := l.Addr().String()
	if cfg.VerbsDevices > 0 && (path == "" || path[0] == '@') {
		return fmt.Errorf("nicless: serve: VerbsDevices %d on a socket without a path", cfg.VerbsDevices)
	}
	if cfg.Memory != nil {
		return errMemory
	}
	return serveListener(ctx, l, path, cfg, ready)
}

// errMemory refuses memory for clients, which have memory of their own.
var errMemory = errors.New("nicless: serve: Memory is for Open: clients have memory of their own")

// LinksSuffix, appended to the path of the socket, gives the socket at which nicless links asks for
// the state of the links.
const LinksSuffix = ".links"

// VerbsSuffix, appended to the path of the socket, gives the directory of the devices for
// programs that use rdma-core (see Config.VerbsDevices).
const VerbsSuffix = ".verbs"
