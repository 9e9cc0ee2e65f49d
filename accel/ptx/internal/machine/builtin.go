package machine

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/nicless/nicless/accel/ptx/internal/code"
)

// A builtin is a function that the machine itself has: it is called for a lane with the values of the
// arguments.
type builtin func(w *warp, l int, args []uint64) uint64

// builtins are the functions that compilers expect of the driver.
var builtins = map[string]builtin{
	"vprintf":      (*warp).printf,
	"__assertfail": (*warp).assertFail,
}

// callBuiltin calls a builtin for each lane.
func (w *warp) callBuiltin(i *code.Inst, callee *function, mask uint32) {
	f := w.frames[w.party.frame]
	for _, l := range lanesOf(mask) {
		memory := w.laneMemory(l) + uint64(f.memory)
		args := make([]uint64, len(i.More.Args))
		for k, a := range i.More.Args {
			if a.Size == 0 {
				args[k] = w.source(a.Slot, f.base)[l]
			} else {
				w.wordOf(l, a)
				args[k] = load(memory+uint64(a.Offset), int(a.Size))
			}
		}
		v := callee.builtin(w, l, args)
		for _, r := range i.More.Results {
			if r.Size == 0 {
				w.regs[f.base+r.Slot][l] = v
			} else {
				w.wordOf(l, r)
				store(memory+uint64(r.Offset), int(r.Size), v)
			}
		}
	}
	w.split(mask, w.party.pc+1) // the others call something else, later
}

// wordOf ends the kernel if an argument or a result of a builtin is no word: strangers may have declared it.
func (w *warp) wordOf(l int, p code.Passed) {
	if p.Size > 8 || p.Size&(p.Size-1) != 0 {
		w.fail(l, fmt.Sprintf("a parameter of %d bytes of a function of the driver", p.Size))
	}
}

// maxText is the most bytes of a string that a kernel prints.
const maxText = 1 << 16

// text returns the string at an address.
func (w *warp) text(l int, address uint64) string {
	var b strings.Builder
	for b.Len() < maxText {
		c := byte(load(w.span(l, address, 1, code.Generic), 1))
		if c == 0 {
			break
		}
		b.WriteByte(c)
		address++
	}
	return b.String()
}

// assertFail ends the kernel: an assertion of its source is not true.
func (w *warp) assertFail(l int, args []uint64) uint64 {
	why := "assertion failed"
	if len(args) >= 4 {
		what, file, function := w.text(l, args[0]), w.text(l, args[1]), w.text(l, args[3])
		why = fmt.Sprintf("%s:%d: %s: Assertion `%s' failed", file, args[2], function, what)
	}
	panic(w.faultOf(l, Assertion, why))
}

// printf prints, as C does; arguments follow each other in memory, each at a multiple of its size.
func (w *warp) printf(l int, args []uint64) uint64 {
	if len(args) != 2 {
		w.fail(l, "vprintf has 2 arguments")
	}
	next := args[1]
	argument := func(size uint64) uint64 {
		next = (next + size - 1) &^ (size - 1)
		v := load(w.span(l, next, size, code.Generic), int(size))
		next += size
		return v
	}
	out, n := w.format(l, w.text(l, args[0]), argument)
	w.block.grid.print(out)
	return uint64(uint32(n))
}

// beforeVerb is what can be between % and the letter of a conversion.
const beforeVerb = "0123456789+-# .*hljztL"

// format returns what printf prints, and how many arguments it has.
func (w *warp) format(l int, text string, argument func(size uint64) uint64) (string, int) {
	var out strings.Builder
	count := 0
	for {
		percent := strings.IndexByte(text, '%')
		if percent < 0 {
			out.WriteString(text)
			return out.String(), count
		}
		out.WriteString(text[:percent])
		text = text[percent+1:]
		end := strings.IndexFunc(text, func(r rune) bool { return !strings.ContainsRune(beforeVerb, r) })
		if end < 0 {
			return out.String(), count
		}
		spec, verb := text[:end], text[end]
		text = text[end+1:]
		if verb == '%' {
			out.WriteByte('%')
			continue
		}
		for strings.Contains(spec, "*") {
			spec = strings.Replace(spec, "*", fmt.Sprint(int32(argument(4))), 1)
			count++
		}
		long := strings.ContainsAny(spec, "ljzt")
		spec = "%" + strings.Trim(spec, "hljztL")
		if tooWide(spec) || out.Len() > maxText {
			w.fail(l, fmt.Sprintf("printf of more than %d bytes", maxText))
		}
		count++
		switch verb {
		case 'd', 'i':
			if long {
				fmt.Fprintf(&out, spec+"d", int64(argument(8)))
			} else {
				fmt.Fprintf(&out, spec+"d", int32(argument(4)))
			}
		case 'u', 'x', 'X', 'o':
			size := uint64(4)
			if long {
				size = 8
			}
			if verb == 'u' {
				verb = 'd'
			}
			fmt.Fprintf(&out, spec+string(rune(verb)), argument(size))
		case 'c':
			fmt.Fprintf(&out, spec+"c", rune(argument(4)))
		case 's':
			fmt.Fprintf(&out, spec+"s", w.text(l, argument(8)))
		case 'p':
			fmt.Fprintf(&out, spec+"s", fmt.Sprintf("%#x", argument(8)))
		case 'f', 'F', 'e', 'E', 'g', 'G':
			out.WriteString(float(spec, verb, math.Float64frombits(argument(8))))
		case 'a', 'A':
			fmt.Fprintf(&out, spec+"x", math.Float64frombits(argument(8)))
		}
	}
}

// tooWide reports whether a width or a precision is more than all that a kernel may print.
func tooWide(spec string) bool {
	for _, n := range strings.FieldsFunc(spec, func(r rune) bool { return r < '0' || r > '9' }) {
		if v, err := strconv.Atoi(n); err != nil || v > maxText {
			return true
		}
	}
	return false
}

// float returns a number as C prints it: with 6 digits unless a precision is given, and without a sign before
// infinity unless one is asked for.
func float(spec string, verb byte, v float64) string {
	if math.IsInf(v, 0) || math.IsNaN(v) {
		text := strings.TrimPrefix(fmt.Sprint(v), "+")
		if strings.Contains(spec, "+") && math.IsInf(v, 1) {
			text = "+" + text
		}
		text = strings.ToLower(text)
		if verb < 'a' {
			text = strings.ToUpper(text)
		}
		width, _, _ := strings.Cut(strings.TrimLeft(spec[1:], "0+# "), ".")
		return fmt.Sprintf("%"+width+"s", text)
	}
	if (verb == 'g' || verb == 'G') && !strings.Contains(spec, ".") {
		spec += ".6"
	}
	return fmt.Sprintf(spec+string(rune(verb)), v)
}
