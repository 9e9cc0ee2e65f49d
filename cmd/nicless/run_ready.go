//go:build linux && (amd64 || arm64)

package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/nicless/nicless/fabric/links"
)

// This file is about the time between the start of an engine and the moment when it is ready.

// startTime is how long an engine may take to start, besides the time that it waits for links (waitOf).
const startTime = 20 * time.Second

// quietTime is how long an engine that starts may take before its log is shown.
const quietTime = time.Second

// waitOf returns how long an engine with these links may wait for others.
func waitOf(fabric []string) time.Duration {
	o, err := links.Parse(fabric)
	if err != nil {
		return 0 // the engine says what is wrong
	}
	return o.Wait()
}

// isReady waits until an engine has said that it is ready, and reports whether the engine has said so.
// After the first second isReady prints what the engine writes to its log: what the engine waits for.
func isReady(ready *os.File, logPath string, w io.Writer, most time.Duration) bool {
	var said []byte
	shown := 0
	began := time.Now()
	for wait := quietTime; time.Since(began) < most; wait = quietTime / 5 {
		_ = ready.SetReadDeadline(time.Now().Add(wait))
		more, err := io.ReadAll(ready)
		said = append(said, more...)
		ended := !errors.Is(err, os.ErrDeadlineExceeded)
		if ended && err == nil && string(said) == readyWord {
			return true
		}
		if time.Since(began) >= quietTime {
			shown = showLog(logPath, w, shown)
		}
		if ended {
			return false
		}
	}
	return false
}

// showLog prints the whole lines of a log after the first shown bytes, and returns how many bytes have
// been shown so far. It leaves out the reason why the engine ends, which comes last and is no line of
// the log.
func showLog(path string, w io.Writer, shown int) int {
	text, _ := os.ReadFile(path)
	for line := range bytes.Lines(text[min(shown, len(text)):]) {
		if !bytes.HasSuffix(line, []byte("\n")) {
			break
		}
		shown += len(line)
		if !bytes.HasPrefix(line, []byte("nicless: ")) {
			fmt.Fprintf(w, "nicless: the engine is starting: %s", line)
		}
	}
	return shown
}

const readyWord = "ready"

// notifyReady notifies the process that started this engine that the engine is ready.
func notifyReady(fd int) {
	f := os.NewFile(uintptr(fd), "ready")
	if f == nil {
		return
	}
	_, _ = io.WriteString(f, readyWord)
	_ = f.Close()
}
