//go:build linux && (amd64 || arm64)

// Poster is the program of the laboratory that uses the device and the memory that machines share.
//
//	poster ask|answer [flags]            exchanges data with a poster on another engine
//	poster engine|post [flags]           posts to an engine of which there is nothing here but memory
//	poster pong [flags]                  two cache lines of a pool go to and fro, without an engine
//	poster scribble [flags] own|all      garbage, over a part of a pool
//
// poster COMMAND -h lists the flags of a command.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"

	"github.com/nicless/nicless/tools/lab/exchange"
	"github.com/nicless/nicless/tools/lab/onlymemory"
	"github.com/nicless/nicless/tools/lab/raw"
)

var commands = map[string]func(args []string) error{
	"ask": exchange.Run, "answer": exchange.Run,
	"engine": onlymemory.Run, "post": onlymemory.Run,
	"pong": raw.Run, "scribble": raw.Run,
}

func main() {
	run := func([]string) error {
		return fmt.Errorf("%q: ask, answer, engine, post, pong and scribble are possible", os.Args[1:])
	}
	if len(os.Args) > 1 && commands[os.Args[1]] != nil {
		run = commands[os.Args[1]]
	}
	err := run(os.Args[1:])
	switch {
	case errors.Is(err, flag.ErrHelp):
	case err != nil:
		fmt.Fprintln(os.Stderr, "poster: error:", err)
		os.Exit(1)
	}
}
