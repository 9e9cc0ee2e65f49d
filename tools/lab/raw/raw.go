//go:build linux && (amd64 || arm64)

// Package raw uses a pool's memory without an engine. In a machine of the laboratory it finds in its
// environment what it needs; elsewhere flags say it.
//
//	poster pong [flags]               prints how long two lines go to and fro between nodes 0 and 1
//	poster scribble [flags] own|all   garbage, over what this node writes, or over all else
//
// All lets live what would make the pool unusable for all nodes: the header, and what other nodes say
// to each other. See the chapter Trust of package fabric/pool.
package raw

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/nicless/nicless/internal/cpu"
	"github.com/nicless/nicless/internal/shm"
)

// A config says which memory, and what this node is.
type config struct {
	path     string
	offset   uint64
	node     int
	coherent bool
	rounds   int
	passes   int
	seed     uint64
	patience time.Duration
}

// Run runs a command. The first argument is pong or scribble.
func Run(args []string) error {
	env := os.Getenv
	node, _ := strconv.Atoi(env("LAB_NODE"))
	var c config
	f := flag.NewFlagSet("poster "+args[0], flag.ContinueOnError)
	f.StringVar(&c.path, "pool", env("LAB_POOL"), "file or device")
	f.Uint64Var(&c.offset, "offset", 0, "where the memory begins in it")
	f.IntVar(&c.node, "node", node, "number of this node")
	f.BoolVar(&c.coherent, "coherent", env("LAB_COHERENT") == "true", "caches of all nodes are coherent")
	f.IntVar(&c.rounds, "rounds", 20000, "pong: how often to and fro")
	f.IntVar(&c.passes, "passes", 3, "scribble: how often over everything")
	f.Uint64Var(&c.seed, "seed", 1, "scribble: of the garbage")
	f.DurationVar(&c.patience, "patience", time.Minute, "pong: how long to wait for the other node, each time; without a processor, no time passes")
	if err := f.Parse(args[1:]); err != nil {
		return err
	}
	if c.path == "" {
		return errors.New("--pool is needed: this machine has found no shared memory")
	}
	switch {
	case args[0] == "pong" && f.NArg() == 0:
		return c.pong()
	case args[0] == "scribble" && f.NArg() == 1:
		return c.scribble(f.Arg(0))
	}
	return fmt.Errorf("%q: pong, scribble own and scribble all are possible", append([]string{args[0]}, f.Args()...))
}

// attach maps a part of the memory.
func (c *config) attach(offset, size uint64) ([]byte, error) {
	f, err := os.OpenFile(c.path, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	r, err := shm.AttachPart(f, int64(c.offset+offset), int(size))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.path, err)
	}
	return r.Bytes(), nil
}

// load and store are for words of 8 bytes, each written by one node.
func (c *config) load(mem []byte, at uint64) uint64 {
	if !c.coherent {
		cpu.InvalidateLines(mem[at:][:8])
	}
	return shm.BE64At(mem, at).Observe()
}

func (c *config) store(mem []byte, at, value uint64) {
	shm.BE64At(mem, at).Publish(value)
	if !c.coherent {
		cpu.WriteBackLines(mem[at:][:8])
	}
}
