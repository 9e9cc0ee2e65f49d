//go:build linux && (amd64 || arm64)

package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// Kinds of faults. Only the first three mean that data or completions are wrong. The exit statuses are those
// of "nicless torture"; any other error has status 1.
const (
	wrongBytes = "wrong bytes"
	lost       = "lost"
	repeated   = "repeated"
	noAnswer   = "no answer"  // a deadline passed, although all processes had a core
	undecided  = "not judged" // a deadline passed on a machine that is too busy to decide
)

var statuses = map[string]int{wrongBytes: 3, lost: 3, repeated: 3, noAnswer: 6, undecided: 7}

// A fault is an error of one of these kinds.
type fault struct{ kind, text string }

func (f *fault) Error() string { return f.kind + ": " + f.text }

func newFault(kind, format string, args ...any) error {
	return &fault{kind, fmt.Sprintf(format, args...)}
}

// outOfOrder returns the fault of a number that came in place of the next one, or nil. The numbers wrap
// around at 2^31 or 2^32, so a difference of more than half of it is one in the other direction.
func outOfOrder(what string, got, next, modulus uint64) error {
	ahead := (got - next) % modulus
	switch {
	case ahead == 0:
		return nil
	case ahead < modulus/2:
		return newFault(lost, "%s %d came, %d was next", what, got, next%modulus)
	default:
		return newFault(repeated, "%s %d came, %d was next", what, got, next%modulus)
	}
}

// reported returns an error that another process has reported in words. It keeps its kind.
func reported(who, text string) error {
	kind, rest, _ := strings.Cut(text, ": ")
	if statuses[kind] != 0 {
		return &fault{kind, who + rest}
	}
	return errors.New(who + text)
}

// exitStatus returns the exit status for an error.
func exitStatus(err error) int {
	if f := new(fault); errors.As(err, &f) {
		return statuses[f.kind]
	}
	return 1
}

// A timeout says in words which deadline has passed. decide makes a fault of it.
type timeout string

func (t timeout) Error() string { return string(t) }
func (t timeout) Timeout() bool { return true }

// leastShare is the part of a wait for which all processes had a core, if the wait is to be decided. An
// answer takes less than a millisecond of a core. It is the share of nicless torture
// (docs/design/0052-verdicts.md).
const leastShare = 0.05

// parties are the processes that an answer needs, by their names. 0: the process is not known.
type parties map[string]int

// A mark is the beginning of a wait, and the time that each thread had waited for a core until then.
type mark struct {
	at     time.Time
	waited map[string]time.Duration // time that each thread waited, by its directory in /proc
}

func (p parties) mark() mark {
	s := mark{time.Now(), make(map[string]time.Duration)}
	for _, pid := range p {
		for thread, waited := range withoutCore(pid) {
			s.waited[thread] = waited
		}
	}
	return s
}

// withoutCore returns how long each thread of a process was ready to run and had no core, so far. The result
// is empty if the kernel does not count that.
func withoutCore(pid int) map[string]time.Duration {
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	all := make(map[string]time.Duration)
	for _, file := range threads {
		var ran, waited time.Duration
		text, err := os.ReadFile(file)
		if err != nil {
			continue // the thread has ended
		}
		if _, err = fmt.Sscan(string(text), (*int64)(&ran), (*int64)(&waited)); err == nil && ran > 0 {
			all[file] = waited
		}
	}
	return all
}

// decide returns the fault that a passed deadline is, with its evidence, and any other error as it is. A
// machine on which a party had no core for most of the time proves nothing about the others.
func (p parties) decide(err error, s mark) error {
	var late interface{ Timeout() bool }
	if !errors.As(err, &late) || !late.Timeout() {
		return err
	}
	took, kind := time.Since(s.at), noAnswer
	var evidence []string
	for _, name := range []string{"engine", "sender", "receiver"} {
		pid, party := p[name]
		if !party {
			continue
		}
		threads, longest := withoutCore(pid), time.Duration(0)
		for thread, waited := range threads {
			longest = max(longest, waited-s.waited[thread])
		}
		if len(threads) == 0 {
			evidence, kind = append(evidence, name+" not known"), undecided
			continue
		}
		evidence = append(evidence, fmt.Sprintf("%s without a core %.1f s", name, longest.Seconds()))
		if longest.Seconds() > (1-leastShare)*took.Seconds() {
			kind = undecided
		}
	}
	return newFault(kind, "%v (of %.1f s: %s)", err, took.Seconds(), strings.Join(evidence, ", "))
}

// peerOf returns the process at the other end of a connection, 0 if it is not known.
func peerOf(conn net.Conn) (pid int) {
	unix, ok := conn.(*net.UnixConn)
	if !ok {
		return 0
	}
	raw, err := unix.SyscallConn()
	if err != nil {
		return 0
	}
	_ = raw.Control(func(fd uintptr) {
		if cred, err := syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET,
			syscall.SO_PEERCRED); err == nil {
			pid = int(cred.Pid)
		}
	})
	return pid
}

// listenerAt returns the process that listens at a socket, 0 if it is not known.
func listenerAt(socket string) int {
	conn, err := net.Dial("unix", socket)
	if err != nil {
		return 0
	}
	defer conn.Close()
	return peerOf(conn)
}
