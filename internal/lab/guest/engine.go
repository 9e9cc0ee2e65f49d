//go:build linux && (amd64 || arm64)

package main

import (
	"bufio"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/nicless/nicless/internal/lab/finder"
)

const (
	engineTime = 3 * time.Minute  // in which the engine has to be ready: it waits for node 0
	stopTime   = 10 * time.Second // in which it has to end
)

// startEngine starts an engine, and returns when it is ready. Its log is on the console. stop ends it, so
// that the other nodes see that this one leaves.
func startEngine(link string) (stop func(), err error) {
	if link == "" {
		return nil, fmt.Errorf("lab.engine=yes without lab.pool=; %s and %s are possible", finder.PCIe, finder.CXL)
	}
	engine := exec.Command("nicless", "engine", "--socket", socket, "--verbs", "--log-level", "info", "--link", link)
	said, err := engine.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := engine.Start(); err != nil {
		return nil, err
	}
	ready, over := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(over)
		begun := false
		for lines := bufio.NewScanner(said); lines.Scan(); {
			fmt.Println("LAB engine:", lines.Text())
			if !begun && strings.Contains(lines.Text(), "engine ready") {
				begun = true
				close(ready)
			}
		}
		if err := engine.Wait(); err != nil {
			fmt.Println("LAB engine ended:", err)
		}
	}()
	select {
	case <-ready:
	case <-over:
		return nil, fmt.Errorf("the engine has ended; --link was %s", link)
	case <-time.After(engineTime):
		return nil, fmt.Errorf("the engine is not ready after %v; --link was %s", engineTime, link)
	}
	return func() {
		_ = engine.Process.Signal(syscall.SIGTERM)
		select {
		case <-over:
		case <-time.After(stopTime):
			fmt.Println("LAB engine: it does not end")
		}
	}, nil
}
