//go:build linux && (amd64 || arm64)

package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"time"
)

// This file reports to systemd, or another manager of services with its protocol (sd_notify(3)), that an
// engine is ready, and that it stops. The manager names a datagram socket in the environment.

// managerVariable names the socket: a path, or a name that begins with @, of an abstract socket.
const managerVariable = "NOTIFY_SOCKET"

// managerTime is how long a manager that reads nothing may hold up the engine.
const managerTime = time.Second

// A manager is the socket of the manager that started this process. "" means that none did.
type manager string

// takeManager returns the manager of this process. Processes that this one starts get none: they are
// no services.
func takeManager() manager {
	socket := os.Getenv(managerVariable)
	_ = os.Unsetenv(managerVariable)
	return manager(socket)
}

// report sends a state, such as READY=1. An engine works without its manager, so an error is only logged:
// systemd then ends the unit when its time to start has passed, and the log says why.
func (m manager) report(state string, log io.Writer) {
	if m == "" {
		return
	}
	if err := m.send(state); err != nil {
		fmt.Fprintf(log, "nicless: the service manager does not hear of %s: %s=%s: %v\n", state, managerVariable, string(m), err)
	}
}

// reportStop reports, when ctx ends, that the engine stops. The function that it returns waits until that
// report has left, if it has begun.
func (m manager) reportStop(ctx context.Context, log io.Writer) (wait func()) {
	sent := make(chan struct{})
	cancel := context.AfterFunc(ctx, func() {
		defer close(sent)
		m.report("STOPPING=1", log)
	})
	return func() {
		if !cancel() {
			<-sent
		}
	}
}

func (m manager) send(state string) error {
	if !strings.HasPrefix(string(m), "/") && !strings.HasPrefix(string(m), "@") {
		return fmt.Errorf("neither a path nor an abstract socket") // vsock:, for managers outside a virtual machine
	}
	c, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: string(m), Net: "unixgram"})
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.SetWriteDeadline(time.Now().Add(managerTime)); err != nil {
		return err
	}
	_, err = c.Write([]byte(state))
	return err
}
