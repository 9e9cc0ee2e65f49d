//go:build linux && (amd64 || arm64)

package main

import (
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// drainTime is how long this command waits for more explanations after the program has ended.
const drainTime = 250 * time.Millisecond

// printExplanations prints the explanations for all descendants of this process, one line for
// each explanation, until stop is called.
func printExplanations(socket string, w io.Writer) (stop func(), err error) {
	conn, err := net.Dial("unixpacket", socket)
	if err != nil {
		return nil, fmt.Errorf("--explain: %w", err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		b := make([]byte, 64<<10)
		for {
			n, err := conn.Read(b)
			if err != nil || n == 0 {
				return
			}
			if pid, text, ok := ourExplanation(string(b[:n])); ok {
				fmt.Fprintf(w, "nicless: explanation: pid %s: %s\n", pid, text)
			}
		}
	}()
	return func() {
		_ = conn.SetReadDeadline(time.Now().Add(drainTime))
		<-done
		_ = conn.Close()
	}, nil
}

// ourExplanation takes a line of the server apart (see verbs.WatchName), and reports whether
// it is about a descendant of this process.
func ourExplanation(line string) (pid, text string, ok bool) {
	lineage, text, _ := strings.Cut(line, " ")
	pid, ancestors, _ := strings.Cut(lineage, ",")
	return pid, text, slices.Contains(strings.Split(ancestors, ","), strconv.Itoa(os.Getpid()))
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
