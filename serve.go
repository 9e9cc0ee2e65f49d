package nicless

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
)

// Serve runs an engine for other processes, which reach it by [Dial] at the
// unix socket path, until ctx ends; then it returns nil. mode is the socket's
// permission bits: they decide who may connect. ready, unless nil, is called
// once clients can.
//
// A socket left behind by an engine that is gone is replaced; one that still
// answers is an error. In the end the work that has been announced is executed
// or flushed, then clients are disconnected, which they see at once as
// ErrDeviceGone, behind their last completions.
func Serve(ctx context.Context, path string, mode fs.FileMode, cfg Config, ready func()) error {
	return serveSocket(ctx, path, mode, cfg, ready)
}

// ServeListener is Serve on a socket that exists already, which a service manager
// has made, for instance (socket activation), or net.ListenUnix. It must be of
// network "unixpacket". ServeListener closes it in the end, also after an error, and leaves its file.
//
// For Config.VerbsDevices the socket must have a path, and only the user who runs
// the engine may use the devices.
func ServeListener(ctx context.Context, l *net.UnixListener, cfg Config, ready func()) error {
	if l == nil {
		return errors.New("nicless: serve: no listener (nil)")
	}
	l.SetUnlinkOnClose(false)
	// For errors before the server has it. Connections that were not accepted may hold
	// descriptors that are slow to close.
	defer func() { go l.Close() }()
	path := l.Addr().String()
	if cfg.VerbsDevices > 0 && (path == "" || path[0] == '@') {
		return fmt.Errorf("nicless: serve: VerbsDevices %d on a socket without a path", cfg.VerbsDevices)
	}
	return serveListener(ctx, l, path, cfg, ready)
}

// VerbsSuffix makes the directory that programs of rdma-core are served in out of
// the path of the socket.
const VerbsSuffix = ".verbs"
