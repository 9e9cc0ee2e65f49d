//go:build linux && (amd64 || arm64)

// Filecopy moves a file from one process to another by one-sided RDMA WRITEs. It is examples/filecopy with
// roles that are started one by one, pipes, deadlines, and verdicts: a program for tests of links.
//
//	go run ./tools/filecopy -in FILE -out FILE
//
// starts an engine and a receiver in two other processes, and is the sender itself. The
// three can also be started separately, in three terminals:
//
//	filecopy -role engine -socket /tmp/engine.sock
//	filecopy -role recv -socket /tmp/engine.sock -peer /tmp/copy.sock -out FILE
//	filecopy -role send -socket /tmp/engine.sock -peer /tmp/copy.sock -in FILE
//
// Sender and receiver can have an engine each, with a link between the engines:
//
//	filecopy -role engine -socket /tmp/a.sock -link pool:/dev/shm/pool,node=0
//	filecopy -role engine -socket /tmp/b.sock -link pool:/dev/shm/pool,node=1
//
// With -link auto, engines in two network namespaces reach each other by RoCE.
//
// The receiver registers a ring of slots. The sender reads the file into its own ring
// of slots, and writes each chunk into the receiver's slot of the same number with
// WRITE_IMM. The sender chooses where the data is written. The immediate wakes the
// receiver and sends it the number of the chunk. The receiver writes the chunk to a
// temporary file beside the target. It gives the slot back with a credit: a SEND without
// payload, whose immediate is the count of chunks done. At the end the sender writes the number
// of bytes and their SHA-256 into a trailer. The file gets its name only if the receiver
// has computed the same values. An incomplete file never has that name.
//
// The exit status separates wrong bytes, lost and repeated chunks or completions (3) from a deadline that
// passed although all had a core (6), and from one that passed on a machine too busy to decide (7).
//
// Filecopy copies regular files and pipes, to their end. It refuses directories, sockets
// and devices, which may have no end. Like cp, filecopy lets the system decide when the
// data is written to the disk.
//
//   - main.go: options and roles
//   - copy.go: starts and ends the processes of a copy
//   - link.go: the engine, and messages between sender and receiver
//   - send.go, recv.go: the two ends
//   - fault.go: faults, and the exit status of each kind
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"
)

const usage = `usage:
  filecopy -in FILE -out FILE [-socket PATH]
        copy a file through an engine: the one at PATH, or one started for it
  filecopy -role engine -socket PATH [-link LINK]...
  filecopy -role recv   -socket PATH -peer PATH -out FILE [-chunk BYTES]
  filecopy -role send   -socket PATH -peer PATH -in FILE
        the same as three programs; sender and receiver meet at the socket -peer.
        They can have an engine each, with links between these, such as
        pool:/dev/shm/pool,node=0 and pool:/dev/shm/pool,node=1 (docs/FABRIC.md)

-timeout DURATION is how long the sender waits for receiver and engine while they
owe it something. It is for all roles that send.

exit status: 0 copied; 1 a file or a process failed; 2 wrong options;
3 wrong bytes, lost or repeated; 6 no answer; 7 not judged: no answer, because the
machine is too busy

example:
  filecopy -in big.iso -out /mnt/big.iso
`

type options struct {
	role   string
	in     string
	out    string
	socket string // path of the engine's socket
	peer   string // path of the socket between sender and receiver
	chunk  int
	answer time.Duration // the longest time that the sender waits for an answer of receiver or engine
	links  []string      // links from the engine to other engines
}

// A hint is an error with advice about what to do.
type hint struct {
	error
	text string
}

func (h hint) Unwrap() error { return h.error }

func main() {
	var o options
	flags := flag.NewFlagSet("filecopy", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.StringVar(&o.role, "role", "", "")
	flags.StringVar(&o.in, "in", "", "")
	flags.StringVar(&o.out, "out", "", "")
	flags.StringVar(&o.socket, "socket", "", "")
	flags.StringVar(&o.peer, "peer", "", "")
	flags.IntVar(&o.chunk, "chunk", 1<<20, "")
	// a disk that must write much first takes seconds
	flags.DurationVar(&o.answer, "timeout", time.Minute, "")
	flags.Func("link", "", func(s string) error { o.links = append(o.links, s); return nil })
	err := flags.Parse(os.Args[1:])
	if err == nil {
		err = o.check(flags.Args())
	}
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Print(usage)
		return
	case err != nil:
		fmt.Fprintf(os.Stderr, "filecopy: error: %v\nfilecopy: hint: filecopy -h says what is\n", err)
		os.Exit(2)
	}

	// If the file exceeds the limit on file sizes, the write returns an error instead of
	// this signal ending the program.
	signal.Ignore(syscall.SIGXFSZ)
	// These signals are caught to the very end: an engine that ends because of one may get another
	// one from the process that started it.
	ctx, _ := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	switch o.role {
	case "engine":
		err = runEngine(ctx, o)
	case "recv":
		err = receive(ctx, o)
	case "send":
		err = send(ctx, o)
	default:
		err = copyFile(ctx, o)
	}
	if err == nil {
		return
	}
	fmt.Fprintf(os.Stderr, "filecopy: error: %v\n", err)
	var h hint
	if errors.As(err, &h) {
		fmt.Fprintf(os.Stderr, "filecopy: hint: %s\n", h.text)
	}
	os.Exit(exitStatus(err))
}

// check checks that the options that the role needs are given, and no others.
func (o *options) check(rest []string) error {
	given := map[string]string{"in": o.in, "out": o.out, "socket": o.socket, "peer": o.peer}
	need, allowed := map[string][]string{
		"":       {"in", "out"},
		"engine": {"socket"},
		"recv":   {"out", "socket", "peer"},
		"send":   {"in", "socket", "peer"},
	}, map[string]string{"": "socket"}[o.role]
	names, ok := need[o.role]
	switch {
	case len(rest) > 0:
		return fmt.Errorf("%q is not an option", rest[0])
	case !ok:
		return fmt.Errorf("-role %s; engine, recv and send are possible", o.role)
	case o.chunk < 1 || o.chunk > maxChunk:
		return fmt.Errorf("-chunk %d; 1 to %d are possible", o.chunk, maxChunk)
	}
	if o.answer <= 0 {
		return fmt.Errorf("-timeout %v; it must be positive", o.answer)
	}
	if o.links != nil && o.role != "engine" {
		return errors.New("-link means nothing here; it is for -role engine")
	}
	for _, n := range names {
		if given[n] == "" {
			return fmt.Errorf("-%s is missing", n)
		}
		delete(given, n)
	}
	for n, v := range given {
		if v != "" && n != allowed {
			return fmt.Errorf("-%s means nothing here", n)
		}
	}
	return nil
}
