//go:build linux && (amd64 || arm64)

// The command nicless-device-plugin offers RDMA devices made of software to the pods of a Kubernetes node:
// each container that asks for nicless.io/hca gets an engine of its own. docs/KUBERNETES.md says how.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/nicless/nicless/deploy/internal/engines"
	"github.com/nicless/nicless/deploy/internal/plugin"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends this process at once; its engines end then, too
	o, err := parse(os.Args[1:], os.Stderr)
	if err == nil {
		err = o.run(ctx, slog.New(slog.NewTextHandler(os.Stderr, nil)))
	}
	switch {
	case errors.Is(err, errHelp):
	case errors.Is(err, errUsage):
		os.Exit(2)
	case err != nil:
		fmt.Fprintf(os.Stderr, "nicless-device-plugin: error: %v\n", err)
		if h := hint(err); h != "" {
			fmt.Fprintf(os.Stderr, "nicless-device-plugin: hint: %s\n", h)
		}
		os.Exit(1)
	}
}

// run offers the devices until ctx ends.
func (o *options) run(ctx context.Context, log *slog.Logger) (err error) {
	pool, err := engines.Open(ctx, engines.Config{
		Dir: o.directory(), Devices: o.devices, Command: o.command, Library: o.library, Args: o.engine,
		User: o.user, Log: log,
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, pool.Close()) }()
	log.Info("devices", "resource", o.resource, "number", o.devices)
	return plugin.Run(ctx, plugin.Config{
		Resource: o.resource, Kubelet: o.kubelet, CDI: o.cdi, Pool: pool, Log: log,
	})
}

func hint(err error) string {
	switch {
	case errors.Is(err, engines.ErrTaken), errors.Is(err, plugin.ErrTaken):
		return "one plugin for each resource and node; another one takes other values of --resource"
	case errors.Is(err, os.ErrNotExist):
		return "--kubelet names the kubelet's directory for plugins; --nicless and --library name files of nicless"
	case errors.Is(err, os.ErrPermission):
		return "the plugin runs as root"
	}
	return ""
}
