//go:build linux && (amd64 || arm64)

package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/nicless/nicless/state"
)

// An engine learns that a program has ended when its socket is closed, and then destroys what the program
// had. On a machine whose cores are busy that may be long after the program's parent has learned of it.
const (
	privatePatience = 10 * time.Second // at most; a process that was left behind may hold the socket open
	sharedPatience  = 2 * time.Second  // clients in other namespaces of process ids seem to have ended
	departurePause  = time.Millisecond // between two questions, of which few are needed
)

// awaitDeparture returns when an engine has destroyed what processes had that have ended, so that a watch has
// the events of that, or when its patience is over.
func awaitDeparture(socket string, patience time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for {
		s, err := state.Read(ctx, socket, state.Request{Kinds: []state.Kind{state.Clients}})
		ended := func(c state.Client) bool { return c.PID > 0 && hasEnded(c.PID) }
		if err != nil || !slices.ContainsFunc(s.Clients, ended) {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(departurePause):
		}
	}
}

// patience returns how long to wait until the engine has learned that the program has ended.
func (f *runFlags) patience() time.Duration {
	if f.private {
		return privatePatience
	}
	return sharedPatience
}

// hasEnded reports whether a process has ended.
func hasEnded(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return os.IsNotExist(err)
	}
	_, after, _ := bytes.Cut(stat[max(bytes.LastIndexByte(stat, ')'), 0):], []byte(") "))
	return len(after) > 0 && (after[0] == 'Z' || after[0] == 'X')
}
