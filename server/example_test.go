package server_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/nicless/nicless"
	"github.com/nicless/nicless/engine"
	"github.com/nicless/nicless/server"
)

// An engine serves clients at a socket, and a client uses it.
func Example() {
	dir, err := os.MkdirTemp("", "nicless")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "engine.sock")

	e, err := engine.New(engine.Config{})
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	running, serving := make(chan error, 1), make(chan error, 1)
	started := make(chan struct{})
	go func() { running <- e.Run(ctx, func() { close(started) }) }()
	<-started
	l, err := server.Listen(e, path, 0o600)
	if err != nil {
		log.Fatal(err)
	}
	go func() { serving <- l.Serve(ctx) }()

	// A client is usually in another process.
	c, err := nicless.Dial(path)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("connected:", c.Device() == e.GUID())
	_ = c.Close()

	stop()
	fmt.Println("ended:", <-serving, <-running)
	// Output:
	// connected: true
	// ended: <nil> <nil>
}
