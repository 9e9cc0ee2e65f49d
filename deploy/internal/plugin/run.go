//go:build linux && (amd64 || arm64)

package plugin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"
	"github.com/nicless/nicless/deploy/internal/engines"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	api "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
	"tags.cncf.io/container-device-interface/pkg/parser"
)

// Resource is the name by which pods ask for devices, unless another is set.
const Resource = "nicless.io/hca"

// Directories of a node, unless others are set.
const (
	Directory    = "/var/lib/nicless" // files of engines. In /run, file systems may forbid to load libraries
	CDIDirectory = "/var/run/cdi"
)

// A Config says what Run offers, and where the kubelet is.
type Config struct {
	Resource string        // VENDOR/CLASS, as Kubernetes and CDI have it
	Kubelet  string        // directory of the kubelet's socket and those of plugins
	CDI      string        // directory of the CDI specification; "": none
	Pool     *engines.Pool // the devices
	Log      *slog.Logger  // nil: no log
}

// ErrTaken is the error of Run if another plugin serves the resource.
var ErrTaken = errors.New("another plugin serves this resource on this node")

// SocketName returns the name of the plugin's socket in the kubelet's directory.
func SocketName(resource string) string { return strings.ReplaceAll(resource, "/", "-") + ".sock" }

// CheckResource returns an error if a resource cannot have this name.
func CheckResource(name string) error {
	vendor, class := parser.ParseQualifier(name)
	err := errors.Join(parser.ValidateVendorName(vendor), parser.ValidateClassName(class))
	if err != nil || !strings.Contains(vendor, ".") || strings.HasSuffix(vendor, "kubernetes.io") {
		return fmt.Errorf("resource %q: a domain and a name are possible, such as %s: %w", name, Resource,
			errors.Join(err, errName))
	}
	return nil
}

var errName = errors.New("not VENDOR.DOMAIN/CLASS, or a domain of Kubernetes")

// retryTime is how long the plugin waits until it tries again to register.
const retryTime = 5 * time.Second

// A runner has the plugin's socket, and knows whether the kubelet does.
type runner struct {
	cfg      Config
	endpoint *endpoint // nil: there is none
	known    bool      // the kubelet has accepted the plugin since its socket was made
}

// Run offers the devices until ctx ends. Whenever the kubelet starts, which removes the sockets of plugins,
// Run makes its socket again and registers. It fails if it can never succeed: there is no directory for
// plugins, or another plugin serves the resource.
func Run(ctx context.Context, cfg Config) error {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if err := CheckResource(cfg.Resource); err != nil {
		return err
	}
	cfg.Kubelet = filepath.Clean(cfg.Kubelet)
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		return err
	}
	defer watcher.Close()
	if err := watcher.Add(cfg.Kubelet); err != nil {
		return fmt.Errorf("no kubelet has ever run here: %s: %w", cfg.Kubelet, err)
	}
	r := &runner{cfg: cfg}
	defer func() { r.endpoint.close() }()
	for {
		again, err := r.connect(ctx)
		if err != nil {
			return err
		}
		if err := r.wait(ctx, watcher, again); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
	}
}

// connect makes the plugin's socket, unless it is there, and registers, unless the kubelet knows the plugin.
// If the kubelet does not answer, the caller tries again when again sends; nil: when something happens.
func (r *runner) connect(ctx context.Context) (again <-chan time.Time, err error) {
	if !r.endpoint.present() {
		r.endpoint.close()
		r.known = false
		r.endpoint, err = listen(&r.cfg)
		if err != nil {
			return nil, err
		}
		if err := r.cfg.writeSpec(); err != nil {
			return nil, err
		}
	}
	if r.known {
		return nil, nil
	}
	err = r.register(ctx)
	switch {
	case err == nil:
		r.known = true
		r.cfg.Log.Info("the kubelet knows the devices", "resource", r.cfg.Resource)
		return nil, nil
	case ctx.Err() != nil:
		return nil, nil
	case errors.Is(err, os.ErrNotExist):
		r.cfg.Log.Warn("the kubelet does not run: waiting for its socket", "path", r.socket())
		return nil, nil
	}
	r.cfg.Log.Warn("the kubelet does not take the plugin", "error", err, "again in", retryTime)
	return time.After(retryTime), nil
}

func (r *runner) socket() string {
	return filepath.Join(r.cfg.Kubelet, filepath.Base(api.KubeletSocket))
}

// wait waits until there is something to do.
func (r *runner) wait(ctx context.Context, watcher *fsnotify.Watcher, again <-chan time.Time) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-again:
			return nil
		case err := <-watcher.Errors:
			return fmt.Errorf("watching %s: %w", r.cfg.Kubelet, err)
		case e := <-watcher.Events:
			if e.Name == r.socket() && e.Has(fsnotify.Create) {
				r.known = false
				return nil
			}
			if !r.endpoint.present() {
				return nil
			}
		}
	}
}

// register tells the kubelet of the plugin.
func (r *runner) register(ctx context.Context) error {
	if _, err := os.Stat(r.socket()); err != nil {
		return err
	}
	conn, err := grpc.NewClient("unix://"+r.socket(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(ctx, retryTime)
	defer cancel()
	_, err = api.NewRegistrationClient(conn).Register(ctx, &api.RegisterRequest{Version: api.Version,
		Endpoint: SocketName(r.cfg.Resource), ResourceName: r.cfg.Resource, Options: options()})
	return err
}
