package hostpath

import (
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
)

// A send queue made with SQConfig.Stacks notes, for each WQE, which functions have called Post. All WQEs are
// then built by layLong, so that the queues without Stacks pay nothing. Noting a stack takes about a
// microsecond.

// stackDepth is how many calls are noted. Some of them are of this module.
const stackDepth = 16

// A trace is the program counters of a post.
type trace [stackDepth]uintptr

// note notes the callers of the function that called layLong.
func (t *trace) note() {
	n := runtime.Callers(3, t[:])
	clear(t[n:])
}

// lines returns the calls of the program, such as "main.go:42 main.post", the innermost first. It leaves out
// the calls of this module, but not those of its tests and commands.
func (t *trace) lines() (list []string) {
	frames := runtime.CallersFrames(t[:])
	for {
		f, more := frames.Next()
		if f.Function != "" && !ours(f) && !strings.HasPrefix(f.Function, "runtime.") {
			list = append(list, fmt.Sprintf("%s:%d %s", filepath.Base(f.File), f.Line, f.Function))
		}
		if !more {
			return list
		}
	}
}

// ours reports whether a call is of the packages that post: this one, the root and package accel.
func ours(f runtime.Frame) bool {
	if strings.HasSuffix(f.File, "_test.go") {
		return false
	}
	for _, p := range []string{"", "/hostpath", "/accel"} {
		if strings.HasPrefix(f.Function, module+p+".") {
			return true
		}
	}
	return false
}

const module = "github.com/nicless/nicless"
