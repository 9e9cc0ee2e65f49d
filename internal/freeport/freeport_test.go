package freeport

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
)

func TestTCP(t *testing.T) {
	seen := make(map[int]bool)
	for range 200 {
		port := TCP(t)
		if seen[port] {
			t.Fatalf("port %d was given twice", port)
		}
		seen[port] = true
		for _, address := range []string{"127.0.0.1:%d", ":%d"} {
			l, err := net.Listen("tcp", fmt.Sprintf(address, port))
			if err != nil {
				t.Fatal(err)
			}
			_ = l.Close()
		}
	}
}

func TestLoopback(t *testing.T) {
	seen := make(map[netip.Addr]bool)
	t.Run("one after the other", func(t *testing.T) { // more than one network has
		for i := range 300 {
			for _, a := range Loopback(t, 2) {
				if seen[a] || !a.IsLoopback() {
					t.Fatalf("call %d: %v", i, a)
				}
				seen[a] = true
			}
		}
	})
	before := len(nets)
	for range 300 {
		t.Run("another", func(t *testing.T) { Loopback(t, 254) })
	}
	if len(nets) != before {
		t.Fatalf("%d networks are held, %d before, although tests have ended", len(nets), before)
	}
}

// A process does not get a port that another one holds until that has released it.
func TestOtherProcesses(t *testing.T) {
	const mark, name = "NICLESS_FREEPORT_CHILD", "test of other processes of "
	if of := os.Getenv(mark); of != "" {
		_, ok := hold(t, name+of)
		fmt.Println("it is free:", ok)
		return
	}
	if runtime.GOOS != "linux" {
		t.Skip("nothing is held here")
	}
	own := fmt.Sprint(os.Getpid())
	child := func(want string) {
		t.Helper()
		c := exec.Command(os.Args[0], "-test.run=^TestOtherProcesses$")
		c.Env = append(os.Environ(), mark+"="+own)
		said, err := c.CombinedOutput()
		if err != nil || !strings.Contains(string(said), want) {
			t.Fatalf("%v, %s; want %q", err, said, want)
		}
	}
	release, ok := hold(t, name+own)
	if !ok {
		t.Fatal("somebody has it")
	}
	if _, again := hold(t, name+own); again {
		t.Fatal("one process got it twice")
	}
	child("it is free: false")
	release()
	child("it is free: true")
}
