package include

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// The model allows and forbids what the PTX manual and its authors' litmus tests do.
func TestPTXModel(t *testing.T) {
	st := func(word string, v int, release bool, s scope) access {
		return access{instr: instr{store: true, release: release, scope: s}, word: word, value: v}
	}
	ld := func(word string, want int, acquire bool, s scope) access {
		return access{instr: instr{load: true, acquire: acquire, scope: s}, word: word, want: want}
	}
	plain := func(word string, v int) access {
		return access{instr: instr{store: true}, word: word, value: v, weak: true}
	}
	look := func(word string, want int) access {
		return access{instr: instr{load: true}, word: word, want: want, weak: true}
	}
	fence := func(sc bool, s scope) access { return access{instr: instr{fence: true, sc: sc, scope: s}} }
	type threads = [][]access
	for _, c := range []struct {
		name     string
		threads  threads
		lanes    int
		possible bool
	}{
		{"message passing", threads{
			{plain("d", 1), st("f", 1, true, gpuScope)}, {ld("f", 1, true, gpuScope), look("d", 0)},
		}, 2, false},
		{"message passing, the message is seen", threads{
			{plain("d", 1), st("f", 1, true, gpuScope)}, {ld("f", 1, true, gpuScope), look("d", 1)},
		}, 2, true},
		{"message passing without a release", threads{
			{plain("d", 1), st("f", 1, false, gpuScope)}, {ld("f", 1, true, gpuScope), look("d", 0)},
		}, 2, true},
		{"message passing without an acquire", threads{
			{plain("d", 1), st("f", 1, true, gpuScope)}, {ld("f", 1, false, gpuScope), look("d", 0)},
		}, 2, true},
		{"message passing to a CPU in the scope of the GPU", threads{
			{plain("d", 1), st("f", 1, true, gpuScope)}, {ld("f", 1, true, sysScope), look("d", 0)},
		}, 1, true},
		{"message passing between blocks in the scope of a block", threads{
			{plain("d", 1), st("f", 1, true, blockScope)}, {ld("f", 1, true, gpuScope), look("d", 0)},
		}, 2, true},
		{"message passing by a fence", threads{
			{plain("d", 1), fence(false, sysScope), st("f", 1, false, sysScope)}, {ld("f", 1, true, sysScope), look("d", 0)},
		}, 1, false},
		{"a release does not order what comes after it", threads{
			{plain("d", 1), st("f", 1, true, sysScope), st("g", 1, false, sysScope)}, {ld("g", 1, true, sysScope), look("d", 0)},
		}, 1, true},
		{"a release is cumulative, across scopes", threads{
			{plain("d", 1), st("f", 1, true, gpuScope)},
			{ld("f", 1, true, gpuScope), st("g", 1, true, sysScope)},
			{ld("g", 1, true, sysScope), look("d", 0)},
		}, 2, false},
		{"each of two stores first, then loads: by fences", threads{
			{st("a", 1, false, gpuScope), fence(true, gpuScope), ld("b", 0, false, gpuScope)},
			{st("b", 1, false, gpuScope), fence(true, gpuScope), ld("a", 0, false, gpuScope)},
		}, 2, false},
		{"each of two stores first, then loads: by fences that are not sequentially consistent", threads{
			{st("a", 1, false, gpuScope), fence(false, gpuScope), ld("b", 0, false, gpuScope)},
			{st("b", 1, false, gpuScope), fence(false, gpuScope), ld("a", 0, false, gpuScope)},
		}, 2, true},
		{"each of two stores first, then loads: by releases and acquires", threads{
			{st("a", 1, true, gpuScope), ld("b", 0, true, gpuScope)}, {st("b", 1, true, gpuScope), ld("a", 0, true, gpuScope)},
		}, 2, true},
		{"two loads of one word", threads{
			{st("a", 1, false, gpuScope)}, {ld("a", 1, false, gpuScope), ld("a", 0, false, gpuScope)},
		}, 2, false},
		{"two loads of one word, plain", threads{
			{plain("a", 1)}, {look("a", 1), look("a", 0)},
		}, 2, true},
		{"a message through a swap", threads{
			{plain("d", 1), st("f", 1, true, gpuScope)},
			{{instr: instr{load: true, store: true, scope: gpuScope}, word: "f", want: 1, value: 2}},
			{ld("f", 2, true, gpuScope), look("d", 0)},
		}, 3, false},
		{"two swaps of one value", threads{
			{{instr: instr{load: true, store: true, scope: gpuScope}, word: "f", want: 0, value: 1}},
			{{instr: instr{load: true, store: true, scope: gpuScope}, word: "f", want: 0, value: 2}},
		}, 2, false},
		{"a load loads what is stored later", threads{
			{ld("a", 1, false, gpuScope), st("b", 1, false, gpuScope)}, {ld("b", 1, false, gpuScope), st("a", 1, false, gpuScope)},
		}, 2, true},
		{"a load loads what is stored later, ordered in each thread", threads{
			{ld("a", 1, true, gpuScope), st("b", 1, true, gpuScope)}, {ld("b", 1, true, gpuScope), st("a", 1, true, gpuScope)},
		}, 2, false},
	} {
		l := &litmus{threads: c.threads, lanes: c.lanes}
		require.Equal(t, c.possible, l.possible(), c.name)
	}
}
