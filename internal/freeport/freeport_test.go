package freeport

import (
	"fmt"
	"net"
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
