//go:build linux

package steady

import (
	"fmt"
	"os"
	"testing"
)

// holder is the first argument of this test binary as a process that has a load.
const holder = "holder"

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == LoadWord {
		if err := LoadMain(os.Args[2:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if len(os.Args) > 1 && os.Args[1] == holder {
		r, err := Load{Busy: 1, Memory: 1, Disk: 1}.start(func(error) {})
		if err != nil {
			panic(err)
		}
		for _, c := range r.children {
			fmt.Println(c.Process.Pid)
		}
		fmt.Println("all")
		select {}
	}
	os.Exit(m.Run())
}
