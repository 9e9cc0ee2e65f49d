//go:build linux && (amd64 || arm64)

package main

import (
	"errors"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nicless/nicless/internal/unixsock"
	"github.com/nicless/nicless/verbs"
	"golang.org/x/sys/unix"
)

// greetingTime is how long a watch waits until the engine says that it has begun. Older engines do not say
// it.
const greetingTime = 2 * time.Second

// A watch reads what the engine says about descendants of this process (verbs.WatchName).
type watch struct {
	conn *net.UnixConn
	buf  []byte
	add  func(pid, text string)
	open map[string]int // connections and devices that a process has opened and not closed
	done chan struct{}  // closed when the goroutine that reads has ended
}

// watchExplanations calls add for each explanation, in one goroutine at a time, until stop is called. It
// misses nothing that is said about programs that begin after it has returned.
func watchExplanations(socket string, add func(pid, text string)) (*watch, error) {
	conn, err := net.DialUnix("unixpacket", nil, &net.UnixAddr{Name: socket, Net: "unixpacket"})
	if err != nil {
		return nil, err
	}
	w := &watch{conn: conn, buf: make([]byte, 64<<10), add: add, open: make(map[string]int),
		done: make(chan struct{})}
	err = w.next(greetingTime)
	if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		_ = conn.Close()
		return nil, errors.New("the engine has closed the connection: it has ended, or has as many watchers as it takes")
	}
	_ = conn.SetReadDeadline(time.Time{})
	go w.read()
	return w, nil
}

func (w *watch) read() {
	defer close(w.done)
	for w.next(0) == nil {
	}
}

// next waits for a datagram and takes it, within a limit unless that is 0.
func (w *watch) next(limit time.Duration) error {
	if limit != 0 {
		_ = w.conn.SetReadDeadline(time.Now().Add(limit))
	}
	n, err := w.conn.Read(w.buf)
	if err != nil {
		return err
	}
	w.take(string(w.buf[:n]))
	return nil
}

// stop ends the watch when nothing is outstanding about processes that have ended, or when patience is over:
// a process that was left behind can hold open what one that has ended has opened.
func (w *watch) stop(patience time.Duration) {
	end := time.Now().Add(patience)
	_ = w.conn.SetReadDeadline(time.Now())
	<-w.done
	for {
		for w.now() {
		}
		if !w.outstanding() || time.Now().After(end) {
			break
		}
		if err := w.next(departurePause); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			break
		}
	}
	_ = w.conn.Close()
}

// now takes a datagram that has come, and reports whether there was one.
func (w *watch) now() bool {
	n := 0
	err := unixsock.Control(w.conn, func(fd int) (err error) {
		n, _, err = unix.Recvfrom(fd, w.buf, unix.MSG_DONTWAIT)
		return err
	})
	if err != nil || n == 0 {
		return false
	}
	w.take(string(w.buf[:n]))
	return true
}

// outstanding reports whether a process has ended and the engine has not seen all of that.
func (w *watch) outstanding() bool {
	for pid, n := range w.open {
		if p, err := strconv.Atoi(pid); n > 0 && err == nil && hasEnded(p) {
			return true
		}
	}
	return false
}

// take takes a datagram. Those about processes of others are dropped.
func (w *watch) take(line string) {
	change := 0
	lineage, text, _ := strings.Cut(line, " ")
	if of, found := strings.CutPrefix(line, verbs.Began); found {
		lineage, change = of, 1
	}
	if of, found := strings.CutPrefix(line, verbs.Ended); found {
		lineage, change = of, -1
	}
	pid, ancestors, _ := strings.Cut(lineage, ",")
	switch {
	case !slices.Contains(strings.Split(ancestors, ","), strconv.Itoa(os.Getpid())):
	case change == 0:
		w.add(pid, text)
	default:
		w.open[pid] += change
		if w.open[pid] == 0 {
			delete(w.open, pid)
		}
	}
}
