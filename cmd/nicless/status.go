//go:build linux && (amd64 || arm64)

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"sync"
	"time"

	"github.com/nicless/nicless"
	"github.com/nicless/nicless/fabric/links"
	"github.com/nicless/nicless/internal/unixsock"
	"github.com/nicless/nicless/state"
	"github.com/spf13/cobra"
)

const statusUsage = `Prints what an engine does, once, in 80 columns: how much of the time its
threads had work, and how much they waited for a core; its clients, their queue
pairs, links, and what went wrong, with reasons. Rates are those of half a
second.

Root and the engine's own user see everything, others what programs of their own
user have. Of many queue pairs, those that wait or have failed come first, then
the busiest. --json prints all of them, and completion queues, as docs/VIEW.md
describes.

Usage:
  nicless status [--socket PATH | --all] [--json]

Flags:
  --socket PATH   socket of the engine (default: that of nicless run; in its
                  programs, also with --private, the one that they use)
  --all           all engines of this machine that let this user ask
  --json          print JSON: an array with an object for each engine

Example:
  nicless status
  nicless status --all --json
`

// statusPause is the time between the two looks of a status. A thread of the engine that is busy in turns of
// a scheduler's slice (3 ms) is seen as it is.
const statusPause = 500 * time.Millisecond

// statusTime is how long an engine may take to answer: one that waits for a core can be late by seconds.
const statusTime = 10 * time.Second

func newStatus() *cobra.Command {
	var socket string
	var all, asJSON bool
	c := &cobra.Command{
		Use:   "status",
		Short: "print what an engine does, once",
		Long:  statusUsage,
		Args:  noArguments,
		RunE: func(c *cobra.Command, _ []string) (err error) {
			if all && socket != "" {
				return usagef("leave one of them out", "status: --socket and --all exclude each other")
			}
			sockets := []string{socket}
			switch {
			case all:
				sockets, err = findEngines("/proc/net/unix")
			case socket == "":
				sockets[0], err = defaultSocket()
			}
			if err != nil {
				return err
			}
			return printStatus(c.Context(), c.OutOrStdout(), sockets, all, asJSON)
		},
	}
	c.Flags().StringVar(&socket, "socket", "", "socket of the engine")
	c.Flags().BoolVar(&all, "all", false, "all engines of this machine")
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	_ = c.MarkFlagFilename("socket")
	return c
}

// An engineStatus is what is known of one engine.
type engineStatus struct {
	Socket string `json:"socket"`
	Error  string `json:"error,omitempty"` // why nothing else is known
	*state.Snapshot
	Links  []links.Report `json:"links,omitempty"`
	Change *state.Change  `json:"-"` // since half a second before

	err error
}

// printStatus asks engines, and prints what they say. Of the engines of a machine, some may not let this user
// ask, or have just ended: that is an error only if none answers.
func printStatus(ctx context.Context, w io.Writer, sockets []string, all, asJSON bool) error {
	list := queryEngines(ctx, sockets)
	var first error
	answers := 0
	for _, e := range list {
		if e.err == nil {
			answers++
		} else if first == nil {
			first = noStatus(e.Socket, e.err)
		}
	}
	if answers > 0 {
		first = nil
	}
	if asJSON {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return errors.Join(e.Encode(list), first)
	}
	if first != nil {
		return first
	}
	if len(list) == 0 {
		fmt.Fprintln(w, "no engine of this user runs; nicless run starts one for a program")
		return nil
	}
	for i, e := range list {
		if i > 0 {
			fmt.Fprintln(w)
		}
		if err := writeStatus(w, e, time.Now()); err != nil {
			return err
		}
	}
	return nil
}

// queryEngines asks engines twice, all of them at the same moments: one that does not answer, or only looks
// like an engine, makes nobody else late.
func queryEngines(ctx context.Context, sockets []string) []*engineStatus {
	list := make([]*engineStatus, len(sockets))
	before := make([]*state.Snapshot, len(sockets))
	of := make(map[*engineStatus]int, len(sockets))
	for i, s := range sockets {
		list[i] = &engineStatus{Socket: s}
		of[list[i]] = i
	}
	forEach(list, func(e *engineStatus) { before[of[e]], e.err = readState(ctx, e.Socket) })
	select {
	case <-time.After(statusPause):
	case <-ctx.Done():
	}
	forEach(list, func(e *engineStatus) { e.query(ctx, before[of[e]]) })
	return list
}

// mostAtOnce is how many engines are asked at a time.
const mostAtOnce = 64

// forEach calls f with each engine, some at a time, and returns when all calls have.
func forEach(list []*engineStatus, f func(*engineStatus)) {
	var all sync.WaitGroup
	room := make(chan struct{}, mostAtOnce)
	for _, e := range list {
		room <- struct{}{}
		all.Go(func() {
			f(e)
			<-room
		})
	}
	all.Wait()
}

// query asks an engine that has answered before.
func (e *engineStatus) query(ctx context.Context, before *state.Snapshot) {
	if e.err == nil {
		e.Snapshot, e.err = readState(ctx, e.Socket)
	}
	if e.err != nil {
		e.Error = e.err.Error()
		return
	}
	e.Change = e.Since(before)
	// A part of a status is better than none.
	_ = unixsock.Query(e.Socket+nicless.LinksSuffix, statusTime, &e.Links)
	e.Links = append(e.Links, queryInterfaces(e.Socket, interfaceTime)...)
}

func readState(ctx context.Context, socket string) (*state.Snapshot, error) {
	ctx, end := context.WithTimeoutCause(ctx, statusTime, fmt.Errorf("no answer in %v", statusTime))
	defer end()
	return state.Read(ctx, socket, state.Request{})
}

// noStatus says why an engine has no status.
func noStatus(socket string, err error) error {
	switch {
	case errors.Is(err, fs.ErrPermission):
		return hintf("its owner decides who may connect: nicless engine --mode", "status: %w", err)
	case errors.As(err, new(*net.OpError)):
		return hintf("nicless status --all finds the engines of this machine; one that is older than this command "+
			"answers nicless links only", "status: no engine at %s: %w", socket, err)
	}
	return fmt.Errorf("status: the engine at %s: %w", socket, err)
}
