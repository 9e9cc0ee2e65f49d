//go:build linux && (amd64 || arm64)

package main

import (
	"os"
	"runtime"
)

// waitingThreads is for how many threads that only wait there are Ps besides those for threads
// that work.
const waitingThreads = 2

// addThreads makes room for the threads of an engine in this process, unless the environment says how many
// threads there are. Threads that wait in the kernel, for a verbs program's next call or for the end of the
// engine's nap, each keep a P. Without a free P, Go's monitor takes theirs away and stays awake to do so,
// every 20 us; what waits for a P meanwhile, such as a packet of a network interface, waits for up to 20 ms.
func addThreads() {
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + waitingThreads)
	}
}
