//go:build linux && (amd64 || arm64)

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/nicless/nicless/accel/ptx"
)

// lateOrders are stores of kernels that the device and the host have seen in another order than the kernel's.
// The libraries of emulated GPUs write files of them to a directory.
type lateOrders struct{ dir string }

// remove removes the directory, if there is one.
func (o lateOrders) remove() {
	if o.dir != "" {
		_ = os.RemoveAll(o.dir)
	}
}

// mostOrders is for how many late stores a line is printed.
const mostOrders = 20

// print prints which stores were seen too early, if the program relies on the order. Of the stores that each
// has overtaken it names one, and says how many others there are.
func (o lateOrders) print(w io.Writer) {
	if o.dir == "" {
		return
	}
	early := overtakers(o.read(w))
	for _, e := range early[:min(len(early), mostOrders)] {
		fmt.Fprintf(w, "nicless: order: %s", readable(e.one.String()))
		if e.more > 0 {
			fmt.Fprintf(w, "; so it has overtaken %s", number(uint64(e.more), "other store"))
		}
		fmt.Fprintln(w)
	}
	if n := len(early) - mostOrders; n > 0 {
		fmt.Fprintf(w, "nicless: order: and %s more\n", number(uint64(n), "store"))
	}
}

// read reads the files, and warns of those that it cannot read.
func (o lateOrders) read(w io.Writer) (all []ptx.Overtaking) {
	files, err := filepath.Glob(filepath.Join(o.dir, "*.json"))
	for _, name := range files {
		var some []ptx.Overtaking
		text, failure := os.ReadFile(name)
		if failure == nil {
			failure = json.Unmarshal(text, &some)
		}
		if failure != nil {
			err = failure
		}
		all = append(all, some...)
	}
	if err != nil {
		fmt.Fprintf(w, "nicless: warning: the orders of stores: %v\n", err)
	}
	return all
}

// An overtaker is a store that was seen before others which come before it in the kernel.
type overtaker struct {
	one  ptx.Overtaking
	more int // others that it has overtaken
}

// overtakers returns the stores that were seen early, each once. It leaves out stores into one block of 64
// bytes, because the parts of a WQE may come in any order, if the record comes after them. A record and a
// register are one word, so stores that went to several words are left out if there are others.
func overtakers(all []ptx.Overtaking) (early []overtaker) {
	words := map[ptx.Place]uint64{} // to which a store went, if it is one word; 0 otherwise
	for _, o := range all {
		word, again := words[o.Second]
		if o.Varies || again && word != o.By {
			words[o.Second] = 0
		} else {
			words[o.Second] = o.By
		}
	}
	apart := func(o ptx.Overtaking) bool { return o.Address/64 != o.By/64 }
	toOne := func(o ptx.Overtaking) bool { return apart(o) && words[o.Second] != 0 }
	wanted := apart
	if slices.ContainsFunc(all, toOne) {
		wanted = toOne
	}
	for _, o := range all {
		if !wanted(o) {
			continue
		}
		k := slices.IndexFunc(early, func(e overtaker) bool { return e.one.Second == o.Second })
		if k < 0 {
			early = append(early, overtaker{one: o})
		} else if o.First != early[k].one.First {
			early[k].more++
		}
	}
	return early
}
