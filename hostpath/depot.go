package hostpath

import (
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
)

// stackDepth is how many calls of a stack are kept. Some of them are of this module.
const stackDepth = 16

// mostStacks is how many different stacks a program can have: those of as many lines that post, on as many
// ways. Posts with other stacks have none.
const mostStacks = 1 << 12

// A Stack is the stack of a post: which calls of the program led to it. Zero means that it is not known. It
// stays valid for the life of the program.
type Stack uint16

// A trace is the program counters of a stack, the innermost first.
type trace [stackDepth]uintptr

// A depot keeps each stack once, so that a queue has a small number for each post. Entries are added and
// never changed, and any number of goroutines may use it. Nobody waits.
type depot struct {
	slots  [2 * mostStacks]atomic.Uint32 // a hash table of numbers of stacks; 0: free
	last   atomic.Uint32                 // number of the stack that was added last
	traces [mostStacks]trace             // by number; written before the number is in slots
}

// stacks are those of all posts of this program. Memory that is not used has no pages.
var stacks depot

// stackHere returns the stack from the caller of its caller's caller on.
func stackHere() Stack {
	var t trace
	const skipped = 3 // runtime.Callers, this function, and its caller
	if runtime.Callers(skipped, t[:]) == 0 {
		return 0
	}
	return stacks.number(&t)
}

// number returns the number of a stack, which is added if it is new. It returns 0 if there is no room.
func (d *depot) number(t *trace) Stack {
	mine := uint32(0)
	for i := t.hash(); ; i++ {
		slot := &d.slots[i%uint64(len(d.slots))]
		n := slot.Load()
		if n == 0 {
			if mine == 0 {
				mine = d.add(t)
			}
			if mine == 0 || slot.CompareAndSwap(0, mine) {
				return Stack(mine)
			}
			n = slot.Load() // another goroutine has taken the slot, perhaps for the same stack
		}
		if d.traces[n] == *t {
			return Stack(n)
		}
	}
}

// add writes a stack into free memory, and returns its number, or 0 if there is none.
func (d *depot) add(t *trace) uint32 {
	for {
		n := d.last.Load()
		if n+1 >= mostStacks {
			return 0
		}
		if d.last.CompareAndSwap(n, n+1) {
			d.traces[n+1] = *t
			return n + 1
		}
	}
}

// hash returns where the search for a stack begins.
func (t *trace) hash() (h uint64) {
	for _, pc := range t {
		h = (h ^ uint64(pc)) * 0x9e3779b97f4a7c15 // 2^64 divided by the golden ratio
		h ^= h >> 32
	}
	return h
}

// Lines returns the calls of the program, such as "main.go:42 main.post", the innermost first. It leaves out
// the calls of this module, but not those of its tests and commands. It returns nil if the stack is not
// known.
func (s Stack) Lines() (list []string) {
	if s == 0 {
		return nil
	}
	return Calls(stacks.traces[s][:])
}

// Calls returns the calls of the program among program counters, which are those of runtime.Callers or end
// with zeros, in the form and with the choice of Stack.Lines.
func Calls(pcs []uintptr) (list []string) {
	frames := runtime.CallersFrames(pcs)
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

// ours reports whether a call is of the packages that post: this one, the root, and packages accel and
// niclesstest.
func ours(f runtime.Frame) bool {
	if strings.HasSuffix(f.File, "_test.go") {
		return false
	}
	for _, p := range []string{"", "/hostpath", "/accel", "/niclesstest"} {
		if strings.HasPrefix(f.Function, module+p+".") {
			return true
		}
	}
	return false
}

const module = "github.com/nicless/nicless"
