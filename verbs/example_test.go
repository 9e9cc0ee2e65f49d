package verbs_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/nicless/nicless/engine"
	"github.com/nicless/nicless/verbs"
)

// Serve makes a directory with its sockets and with the files of sysfs that libibverbs
// reads. Programs that nicless run starts find the devices there.
func ExampleServe() {
	tmp, err := os.MkdirTemp("", "verbs")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(tmp)
	e, err := engine.New(engine.Config{})
	if err != nil {
		panic(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	started, ready, ended := make(chan struct{}), make(chan struct{}), make(chan error, 2)
	go func() { ended <- e.Run(ctx, func() { close(started) }) }()
	<-started
	dir := filepath.Join(tmp, "devices")
	go func() { ended <- verbs.Serve(ctx, dir, e, verbs.Config{Devices: 2}, func() { close(ready) }) }()
	<-ready
	devices, err := filepath.Glob(filepath.Join(dir, "sys", "class", "infiniband", "*"))
	if err != nil {
		panic(err)
	}
	for _, d := range devices {
		fmt.Println(filepath.Base(d))
	}
	stop()
	fmt.Println(<-ended, <-ended)
	// Output:
	// nicless0
	// nicless1
	// <nil> <nil>
}
