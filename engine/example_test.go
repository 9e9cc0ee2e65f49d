package engine_test

import (
	"context"
	"fmt"

	"github.com/nicless/nicless/engine"
)

// An engine runs on a thread of its own. Package server makes it reachable for other
// processes.
func Example() {
	e, err := engine.New(engine.Config{})
	if err != nil {
		panic(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	started, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- e.Run(ctx, func() { close(started) }) }()
	<-started
	stop()
	fmt.Println(<-ended)
	// Output: <nil>
}

// An engine can be stepped by hand: each Step does some of the work that there is, and never
// waits.
func ExampleEngine_Step() {
	e, err := engine.New(engine.Config{})
	if err != nil {
		panic(err)
	}
	fmt.Println(e.Step(), "work requests")
	// Output: 0 work requests
}
