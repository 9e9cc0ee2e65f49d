//go:build linux && (amd64 || arm64)

package main

import (
	"bufio"
	"fmt"
	"os/exec"
	"strings"
	"syscall"

	"github.com/nicless/nicless/internal/lab/finder"
)

// startEngine starts an engine, and returns when it is ready. Its log is on the console. stop ends it, so
// that the other nodes see that this one leaves. Both have no time of their own: how long an engine takes
// depends on the other nodes, and on how much of a processor the host gives. lab.seconds= limits both.
func startEngine(link string) (stop func(), err error) {
	if link == "" {
		return nil, fmt.Errorf("lab.engine=yes without lab.pool=; %s and %s are possible", finder.PCIe, finder.CXL)
	}
	engine := exec.Command("nicless", "engine", "--socket", socket, "--verbs", "--log-level", "info",
		"--link", link)
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
	}
	return func() {
		fmt.Println("LAB engine: asked to end")
		_ = engine.Process.Signal(syscall.SIGTERM)
		<-over
	}, nil
}
