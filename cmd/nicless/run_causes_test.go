//go:build linux && (amd64 || arm64)

package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Explanations that differ in numbers only are printed at the first, the tenth and the hundredth time, and
// at the end with their count.
func TestCauses(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	c := causes{w: &out}
	for i := range 207 {
		c.add("7", fmt.Sprintf("memory region of %d bytes at %#x stays where it is", 4096+i, 0x1000*i))
	}
	c.add("7", "refused with EINVAL: CQ of 0 entries")
	c.end()
	require.Equal(t, `nicless: explanation: pid 7: memory region of 4096 bytes at 0x0 stays where it is
nicless: explanation: pid 7: 10 times, the last time: memory region of 4105 bytes at 0x9000 stays where it is
nicless: explanation: pid 7: 100 times, the last time: memory region of 4195 bytes at 0x63000 stays where it is
nicless: explanation: pid 7: refused with EINVAL: CQ of 0 entries
nicless: explanation: pid 7: 207 times, the last time: memory region of 4302 bytes at 0xce000 stays where it is
`, out.String())
}

// Each queue pair's explanation is printed.
func TestCausesOfManyQueues(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	c := causes{w: &out}
	for _, text := range []string{"nicless0: qp 0x1 wqe 0: WRITE: rkey 0x7 names no region", "nicless0: qp 0x2 wqe 0: WRITE: rkey 0x7 names no region"} {
		c.add("7", text)
		require.Contains(t, out.String(), text)
	}
	c.add("7", "nicless0: qp 0x2 wqe 1: WRITE: rkey 0x8 names no region")
	require.Equal(t, 2, strings.Count(out.String(), "\n"))
}

// A cause of several processes says so, and what does not fit among the kinds is printed each time.
func TestCausesOfManyProcesses(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	c := causes{w: &out}
	c.add("7", "a")
	c.add("8", "a")
	c.end()
	require.Equal(t, "nicless: explanation: pid 7: a\n"+
		"nicless: explanation: pid 8: 2 times in several processes, the last time: a\n", out.String())
	for i := range mostKinds {
		c.add("9", strings.Repeat("b", i+1))
	}
	out.Reset()
	c.add("9", strings.Repeat("b", mostKinds))
	c.add("9", strings.Repeat("b", mostKinds))
	require.Equal(t, 2, strings.Count(out.String(), "pid 9: bbb"))
	require.Len(t, c.order, mostKinds)
}
