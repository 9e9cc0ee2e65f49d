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
		if err != nil || !slices.ContainsFunc(s.Clients, hasEnded) {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(departurePause):
		}
	}
}

// hasEnded reports whether the process of a client is known, and has ended.
func hasEnded(c state.Client) bool {
	if c.PID <= 0 {
		return false
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", c.PID))
	if err != nil {
		return os.IsNotExist(err)
	}
	_, after, _ := bytes.Cut(stat[max(bytes.LastIndexByte(stat, ')'), 0):], []byte(") "))
	return len(after) > 0 && (after[0] == 'Z' || after[0] == 'X')
}
