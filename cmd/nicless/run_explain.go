//go:build linux && (amd64 || arm64)

package main

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

// drainTime is how long this command waits for more explanations after the program has ended.
const drainTime = 100 * time.Millisecond

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
		below := map[int]bool{}
		b := make([]byte, 64<<10)
		for {
			n, err := conn.Read(b)
			if err != nil || n == 0 {
				return
			}
			number, text, _ := bytes.Cut(b[:n], []byte{' '})
			pid, err := strconv.Atoi(string(number))
			if err != nil {
				continue
			}
			if !below[pid] {
				below[pid] = descends(pid)
			}
			if below[pid] {
				fmt.Fprintf(w, "nicless: explanation: pid %d: %s\n", pid, text)
			}
		}
	}()
	return func() {
		_ = conn.SetReadDeadline(time.Now().Add(drainTime))
		<-done
		_ = conn.Close()
	}, nil
}

// descends reports whether a process descends from this one.
func descends(pid int) bool {
	for range 64 {
		parent := parentOf(pid)
		if parent == os.Getpid() {
			return true
		}
		if parent <= 1 {
			return false
		}
		pid = parent
	}
	return false
}

// parentOf returns the pid of the parent of a process, or 0 if the process is gone.
func parentOf(pid int) int {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	// The program's name is in parentheses and may contain parentheses itself.
	rest := string(b[bytes.LastIndexByte(b, ')')+1:])
	fields := strings.Fields(rest) // state, parent, ...
	if len(fields) < 2 {
		return 0
	}
	parent, _ := strconv.Atoi(fields[1])
	return parent
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
