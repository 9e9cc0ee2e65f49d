//go:build linux && (amd64 || arm64)

package main

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/nicless/nicless/verbs"
)

// printExplanations prints the explanations for all descendants of this process, one line for
// each kind of them (causes), until stop is called with the error with which the program has ended.
// Stop first waits, at most for patience, for what the engine has to say about processes that have ended.
// It prints how often explanations came, and the likely causes if the program failed and no fault was
// explained.
func printExplanations(socket string, w io.Writer, patience time.Duration) (stop func(error), err error) {
	said := &explanations{causes: causes{w: w}}
	in, err := watchExplanations(socket, said.add)
	if err != nil {
		return nil, fmt.Errorf("--explain: %w", err)
	}
	return func(program error) {
		in.stop(patience)
		said.causes.end()
		if isFailure(program) {
			said.likely.print(w)
		}
	}, nil
}

// Explanations are what was said about programs.
type explanations struct {
	causes causes
	likely likelyCauses
}

func (e *explanations) add(pid, text string) {
	if !e.likely.keep(pid, text) {
		e.causes.add(pid, text)
	}
}

// isFailure reports whether a program has ended by itself with a status other than 0, or by a
// signal that a user does not send to end a program.
func isFailure(program error) bool {
	var h *hinted
	if !errors.As(program, &h) {
		return false
	}
	switch h.status {
	case statusOfSignal + int(syscall.SIGINT), statusOfSignal + int(syscall.SIGTERM),
		statusOfSignal + int(syscall.SIGHUP), statusOfSignal + int(syscall.SIGKILL):
		return false
	}
	return h.status != 0
}

// mostCauses is for how many processes a likely cause is printed.
const mostCauses = 3

// likelyCauses are what is likely about processes if the program failed (verbs.IfFailed).
type likelyCauses struct {
	explained bool // there was an explanation for some process
	likely    []likelyCause
}

type likelyCause struct{ pid, text string }

// keep keeps a text that is a likely cause, which is printed later or never, and reports whether it is one.
func (g *likelyCauses) keep(pid, text string) bool {
	if text, ok := strings.CutPrefix(text, verbs.IfFailed); ok {
		if len(g.likely) < 64 {
			g.likely = append(g.likely, likelyCause{pid, text})
		}
		return true
	}
	g.explained = true
	return false
}

// print prints the likely causes if no fault was explained. The process with the fault and the process that
// reports it are often two: a client fails because of its server's mistake, and a cause that is likely for
// the client would mislead.
func (g *likelyCauses) print(w io.Writer) {
	if g.explained {
		return
	}
	for _, l := range g.likely[:min(len(g.likely), mostCauses)] {
		fmt.Fprintf(w, "nicless: likely: pid %s: %s\n", plain(l.pid), plain(l.text))
	}
}

// A lockedWriter serializes the writes of several goroutines, so that their lines do not mix.
type lockedWriter struct {
	mu sync.Mutex
	w  io.Writer
}

func (o *lockedWriter) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.w.Write(b)
}
