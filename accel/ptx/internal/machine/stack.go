package machine

import "github.com/nicless/nicless/accel/ptx/internal/code"

// A lane has one piece of memory for the frames of its kernel and of all functions that are under way. As
// with NVIDIA's linker, what calls by name need is known before the launch; Stack of a launch is for the
// rest: calls by address, and functions that call themselves.

// maxFrame is how many bytes a lane has at most.
const maxFrame = 512 << 10

// roundedFrame returns how many bytes a frame takes of a lane's memory.
func roundedFrame(bytes int64) int64 { return (bytes + 15) &^ 15 }

// frameBytes returns how many bytes a lane has for frames. Calls that may not be made do not make a launch
// impossible.
func (l *Launch) frameBytes() uint64 {
	own := uint64(roundedFrame(l.Kernel.FrameBytes)) + l.Stack
	return (max(own, min(own+uint64(l.Kernel.calls), maxFrame)) + 15) &^ 15
}

// A callGraph finds how many bytes the functions of a program need for those that they call by name.
type callGraph struct {
	program *Program
	state   map[*function]int64 // the bytes, or entered
}

// entered is the state of a function while those that it calls are looked at. A call of it is one of a
// function by itself, and counts nothing.
const entered = -1

// calls returns the bytes that the calls of a function need at most, and no more than maxFrame.
func (g *callGraph) calls(f *function) int64 {
	if n, known := g.state[f]; known {
		return max(n, 0)
	}
	if f.Err != nil {
		return 0 // its calls have no targets, and lanes that enter it fail
	}
	g.state[f] = entered
	most := int64(0)
	insts := g.program.insts[f.begin:f.end]
	for k := range insts {
		if insts[k].Op != code.Call {
			continue
		}
		to := g.program.functions[insts[k].Imm]
		most = max(most, roundedFrame(to.FrameBytes)+g.calls(to))
	}
	g.state[f] = min(most, maxFrame)
	return g.state[f]
}
