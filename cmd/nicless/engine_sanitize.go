//go:build linux && (amd64 || arm64)

package main

import (
	"fmt"
	"io"
)

// sanitizeClients prints what the sanitizer finds in what all clients of the engine at a socket do. begin is
// called when the engine serves clients, and end when it has stopped.
func sanitizeClients(socket string, stderr io.Writer) (begin, end func()) {
	stop := make(chan func(error) error, 1)
	began := false
	begin = func() {
		began = true
		go func() { // the engine accepts clients, as this one, after begin has returned
			var f sanitizeFlags
			s, err := f.sanitizeProgram(socket, nil, stderr)
			if err != nil {
				fmt.Fprintf(stderr, "nicless: error: %v\n", err)
				s = func(error) error { return nil }
			}
			stop <- s
		}()
	}
	end = func() {
		if began {
			_ = (<-stop)(nil) // what it has found was printed
		}
	}
	return begin, end
}
