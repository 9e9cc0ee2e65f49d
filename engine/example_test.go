package engine_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/nicless/nicless"
	"github.com/nicless/nicless/engine"
)

// An engine on a thread of its own, and a socket by which clients reach it.
func Example() {
	dir, err := os.MkdirTemp("", "engine")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	e, err := engine.New(engine.Config{})
	if err != nil {
		panic(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	started, ended := make(chan struct{}), make(chan error, 2)
	go func() { ended <- e.Run(ctx, func() { close(started) }) }()
	<-started
	l, err := e.Listen(filepath.Join(dir, "socket"), 0o600)
	if err != nil {
		panic(err)
	}
	go func() { ended <- l.Serve(ctx) }()

	c, err := nicless.Dial(filepath.Join(dir, "socket"))
	if err != nil {
		panic(err)
	}
	fmt.Println("this engine:", c.Device() == e.GUID())
	_ = c.Close()
	stop()
	fmt.Println(<-ended, <-ended)
	// Output:
	// this engine: true
	// <nil> <nil>
}

// An engine can be stepped by hand: Step does what there is to do, and never waits.
func ExampleEngine_Step() {
	e, err := engine.New(engine.Config{})
	if err != nil {
		panic(err)
	}
	fmt.Println(e.Step(), "work requests")
	// Output: 0 work requests
}
