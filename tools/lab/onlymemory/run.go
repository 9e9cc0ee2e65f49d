//go:build linux && (amd64 || arm64)

// Package onlymemory lets programs post work that have nothing of the engine but memory: two virtual
// machines that share memory with the host (QEMU's ivshmem), or two processes that share a file.
// They cannot connect to the engine. They map the memory, write WQEs and doorbell records into
// it and poll CQEs, with the functions of RDMaxcel, as a GPU does.
//
//	poster engine -file /dev/shm/pool        on the host
//	poster post -file /dev/shm/pool -node 1  in another process
//	poster post -file ivshmem -node 2        in a virtual machine
//
// The engine connects queue pairs two by two, 1 with 2 and 3 with 4, and writes where they are
// into the first page of the memory. Both posters of a pair run the same program, and check
// every byte: WRITEs back and forth, long WRITEs, READs, and fetch-and-adds on one counter.
// With -garbage, a poster destroys its own queue pair instead, and others go on.
//
//	board.go   the first page
//	engine.go  what the host does
//	pool.go    the memory as a poster maps it
//	poster.go  posts, polls and waits
//	play.go    the requests, and the checks
//	garbage.go a poster that does not know what it does
//	nap.go     short sleeps
package onlymemory

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
  poster engine -file PATH [-offset BYTES] [-length BYTES] 
                  [-pairs N] [-bytes N] [-json PATH] [-spin]
  poster post   -file PATH|ivshmem -node N [-offset BYTES] [-length BYTES] [-nap 50us]
                  [-n ROUNDS] [-rounds N] [-timeout 1m] [-garbage]

engine runs until it gets SIGINT or SIGTERM:
  -file    the shared memory; made if it does not exist
  -offset  where the memory begins in the file
  -length  bytes of a file that is made (default 16 MiB)
  -pairs   pairs of posters (default 2: nodes 1 and 2, nodes 3 and 4)
  -bytes   of a long write (default 65536)
  -json    also writes there where everything is in the memory
  -spin    never sleeps

post connects queue pairs with those of its peer, which is another poster:
  -file    the shared memory: a file, resource2 of a PCI device, or the word
           ivshmem, which finds the PCI device
  -offset, -length
           which part of the file is mapped; devices without a size need a length
  -node    its number, counted from 1
  -nap     sleeps so long between polls; 0 polls all the time (default 50us)
  -n       round trips, and fetch-and-adds (default 1000)
  -rounds  long writes, and reads (default 20)
  -timeout for everything (default 1m)
  -garbage writes nonsense into its queues, and expects an error completion
           for the first
Node 1 or 3 decides -n and -rounds for both nodes of its pair.
`

// Run runs a command until it ends by itself, or by a signal. The first argument is engine or post.
func Run(args []string) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := run(ctx, args[0], args[1:])
	if errors.Is(err, flag.ErrHelp) {
		fmt.Print(usage)
	}
	return err
}

func run(ctx context.Context, role string, args []string) error {
	f := flag.NewFlagSet("poster "+role, flag.ContinueOnError)
	f.SetOutput(io.Discard)
	var e engineConfig
	var p posterConfig
	var part filePart
	f.StringVar(&part.path, "file", "", "")
	f.Int64Var(&part.offset, "offset", 0, "")
	f.Int64Var(&part.length, "length", 0, "")
	switch role {
	case "engine":
		f.IntVar(&e.pairs, "pairs", 2, "")
		f.IntVar(&e.bytes, "bytes", 64<<10, "")
		f.StringVar(&e.json, "json", "", "")
		f.BoolVar(&e.spin, "spin", false, "")
	default:
		f.IntVar(&p.node, "node", 0, "")
		f.DurationVar(&p.nap, "nap", 50*time.Microsecond, "")
		f.IntVar(&p.n, "n", 1000, "")
		f.IntVar(&p.rounds, "rounds", 20, "")
		f.DurationVar(&p.timeout, "timeout", time.Minute, "")
		f.BoolVar(&p.garbage, "garbage", false, "")
	}
	if err := f.Parse(args); err != nil {
		return err
	}
	switch {
	case f.NArg() > 0:
		return fmt.Errorf("%q is not an option", f.Arg(0))
	case part.path == "":
		return errors.New("-file is missing")
	case part.offset < 0 || part.length < 0:
		return fmt.Errorf("-offset %d, -length %d; they are not negative", part.offset, part.length)
	case role == "engine" && (e.pairs < 1 || e.pairs > mostPairs):
		return fmt.Errorf("-pairs %d; 1 to %d are possible", e.pairs, mostPairs)
	case role == "engine" && (e.bytes < 8 || e.bytes > mostBytes || e.bytes%8 != 0):
		return fmt.Errorf("-bytes %d; a multiple of 8 up to %d is possible", e.bytes, mostBytes)
	case role == "engine":
		e.file = part
		return serve(ctx, e)
	case p.node < 1:
		return fmt.Errorf("-node %d; numbers begin with 1", p.node)
	case p.n < 1 || p.n > mostRounds || p.rounds < 1 || p.rounds > mostRounds:
		return fmt.Errorf("-n %d, -rounds %d; 1 to %d are possible", p.n, p.rounds, mostRounds)
	}
	p.file = part
	return post(ctx, p)
}
