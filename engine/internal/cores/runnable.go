//go:build linux && (amd64 || arm64)

package cores

import (
	"bytes"
	"os"
)

// A runnableThreads counts the threads of the system that run or want to run. Its file stays open, so that a
// count is one system call and allocates nothing. Not safe for concurrent use.
type runnableThreads struct {
	loads *os.File // nil if there is no /proc
	text  [64]byte // such as 0.20 0.18 0.12 3/345 11206
}

func openRunnable() *runnableThreads {
	loads, err := os.Open("/proc/loadavg")
	if err != nil {
		return &runnableThreads{}
	}
	return &runnableThreads{loads: loads}
}

// count returns the number of threads, including the calling one, or 0 if the kernel does not say it.
func (r *runnableThreads) count() (n int) {
	if r.loads == nil {
		return 0
	}
	size, _ := r.loads.ReadAt(r.text[:], 0) // the end of the file is an error, too
	text := r.text[:size]
	for range 3 { // the averages
		text = text[bytes.IndexByte(text, ' ')+1:]
	}
	for i, digit := range text {
		if digit < '0' || digit > '9' {
			if digit != '/' || i == 0 {
				return 0
			}
			return n
		}
		n = 10*n + int(digit-'0')
	}
	return 0
}

func (r *runnableThreads) close() {
	if r.loads != nil {
		r.loads.Close()
	}
}
