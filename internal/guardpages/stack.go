//go:build linux && amd64

package guardpages

import (
	"encoding/binary"
	"runtime"
	"strings"
)

// mostCalls bounds the calls of a Fault.
const mostCalls = 32

// calls is what is known of a thread that has made an access.
type calls struct {
	ip    uintptr // address of the instruction
	sp    uint64  // stack pointer
	fp    uint64  // frame pointer: where the caller's frame pointer and then the address of return are
	stack []byte  // the stack from sp on
}

// list returns the calls, innermost first. It follows the frame pointers, as far as stack has them.
func (c *calls) list() []uintptr {
	list := []uintptr{c.ip + 1} // runtime.CallersFrames takes 1 off, because it expects addresses of return
	if to, ok := c.frameless(); ok {
		list = append(list, to)
	}
	for fp, at := c.fp, uint64(0); len(list) < mostCalls; {
		next := fp - c.sp
		if fp%8 != 0 || next < at || next > uint64(len(c.stack)) || uint64(len(c.stack))-next < 16 {
			break
		}
		to := c.word(next + 8)
		if runtime.FuncForPC(uintptr(to)) == nil {
			break // not of Go
		}
		list = append(list, uintptr(to))
		fp, at = c.word(next), next+16
	}
	return list
}

func (c *calls) word(at uint64) uint64 { return binary.NativeEndian.Uint64(c.stack[at:]) }

// frameless returns the address of return of a function that has no frame, such as memmove. The frame pointer
// is then that of its caller.
func (c *calls) frameless() (uintptr, bool) {
	if len(c.stack) < 8 {
		return 0, false
	}
	to := uintptr(c.word(0))
	inner := runtime.FuncForPC(c.ip)
	if inner == nil || runtime.FuncForPC(to-1) == nil || runtime.FuncForPC(to-5) == nil {
		return 0, false
	}
	callee := calledBefore(to)
	file, _ := inner.FileLine(c.ip)
	return to, callee != 0 && (callee == inner.Entry() || strings.HasSuffix(file, ".s"))
}
