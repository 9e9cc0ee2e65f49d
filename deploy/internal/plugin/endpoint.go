//go:build linux && (amd64 || arm64)

package plugin

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"

	"google.golang.org/grpc"
	api "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// An endpoint is the socket at which the kubelet calls the plugin. A nil endpoint is not present.
type endpoint struct {
	path    string
	file    os.FileInfo
	server  *grpc.Server
	socket  *net.UnixListener
	closing chan struct{}
}

// listen makes an endpoint. A socket that nobody serves is replaced. A kubelet that starts meanwhile removes
// the new socket, which is made again then.
func listen(cfg *Config) (e *endpoint, err error) {
	for range listenTries {
		e, err = listenOnce(cfg)
		if !errors.Is(err, os.ErrNotExist) {
			break
		}
	}
	return e, err
}

// listenTries is more often than a kubelet starts in the time that listening takes.
const listenTries = 10

func listenOnce(cfg *Config) (*endpoint, error) {
	path := filepath.Join(cfg.Kubelet, SocketName(cfg.Resource))
	if c, err := net.Dial("unix", path); err == nil {
		_ = c.Close()
		return nil, fmt.Errorf("%w: %s, %s", ErrTaken, cfg.Resource, path)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, err
	}
	// By the time that this listener ends, the name can be another listener's.
	l.SetUnlinkOnClose(false)
	file, err := os.Lstat(path)
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	e := &endpoint{path: path, file: file, server: grpc.NewServer(), socket: l,
		closing: make(chan struct{})}
	api.RegisterDevicePluginServer(e.server, &server{cfg: cfg, closing: e.closing})
	go func() {
		if err := e.server.Serve(l); err != nil && !errors.Is(err, grpc.ErrServerStopped) {
			cfg.Log.Error("the plugin's socket", "error", err)
		}
	}()
	return e, nil
}

// present reports whether the name is still that of the endpoint.
func (e *endpoint) present() bool {
	if e == nil {
		return false
	}
	now, err := os.Lstat(e.path)
	return err == nil && os.SameFile(now, e.file)
}

// close ends the endpoint, and the calls that it serves.
func (e *endpoint) close() {
	if e == nil {
		return
	}
	close(e.closing)
	if e.present() {
		_ = os.Remove(e.path)
	}
	e.stop()
}

// stop ends the server and its socket, and leaves the socket's file. A server that has not begun to serve
// does not know the socket yet.
func (e *endpoint) stop() {
	e.server.Stop()
	_ = e.socket.Close()
}
