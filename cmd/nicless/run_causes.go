//go:build linux && (amd64 || arm64)

package main

import (
	"fmt"
	"io"
	"regexp"
	"strings"
)

// mostKinds bounds the kinds of explanations that are counted. Explanations of further kinds are printed
// each. A program that meets so many kinds is rare, and one that makes them up is bounded in memory.
const mostKinds = 256

// Causes prints explanations, those of one kind once: a program that registers 200 buffers which all
// stay where they are has one reason for it. Two explanations are of one kind if they differ in numbers
// only, and are about one queue if they name one: a program that polls an error of each of 100 queue pairs
// finds the reason of each. When the count of a kind reaches a power of ten, the explanation of that moment
// is printed with the count, so that a program that runs for days shows what goes on; the rest is said at
// the end.
type causes struct {
	w     io.Writer
	kinds map[string]*cause
	order []*cause
}

type cause struct {
	text    string // of the last explanation
	pid     string // of the last explanation
	many    bool   // explanations were about several processes
	count   int
	printed int // count when it was printed last
}

var anyNumber = regexp.MustCompile(`(\b(?:qp|queue) )?(?:0x[0-9a-fA-F]+|[0-9]+)`)

// kindOf returns an explanation without the numbers that tell it from others of its kind.
func kindOf(text string) string {
	return anyNumber.ReplaceAllStringFunc(text, func(number string) string {
		if strings.Contains(number, " ") { // the name of a queue
			return number
		}
		return "0"
	})
}

// add prints an explanation, or counts it.
func (c *causes) add(pid, text string) {
	kind := kindOf(text)
	k := c.kinds[kind]
	if k == nil {
		k = &cause{pid: pid}
		if len(c.order) < mostKinds {
			if c.kinds == nil {
				c.kinds = make(map[string]*cause)
			}
			c.kinds[kind] = k
			c.order = append(c.order, k)
		}
	}
	k.many = k.many || k.pid != pid
	k.pid, k.text = pid, text
	k.count++
	if isPowerOfTen(k.count) {
		c.print(k)
	}
}

// end prints the counts that have grown since they were printed.
func (c *causes) end() {
	for _, k := range c.order {
		if k.count > k.printed {
			c.print(k)
		}
	}
}

func (c *causes) print(k *cause) {
	times := ""
	if k.count > 1 {
		times = fmt.Sprintf("%d times, the last time: ", k.count)
		if k.many {
			times = fmt.Sprintf("%d times in several processes, the last time: ", k.count)
		}
	}
	k.printed = k.count
	fmt.Fprintf(c.w, "nicless: explanation: pid %s: %s%s\n", plain(k.pid), times, plain(k.text))
}

func isPowerOfTen(n int) bool {
	for n%10 == 0 && n > 1 {
		n /= 10
	}
	return n == 1
}
