// Command opcodes writes the files that repeat facts of package wqe and of
// package cqe in another place or language: docs/OPCODES.md, the C header
// include/nicless/opcodes.h and cqe/sendop.go.
//
// Run it by go generate ./internal/opcodes after a change of the tables. Its
// test fails while one of the files is out of date.
package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"

	"github.com/nicless/nicless/wqe"
)

//go:generate go run .

// root is the module's folder, seen from this one.
const root = "../.."

// files are the generated files, by their path in the module.
var files = map[string]func() []byte{
	"docs/OPCODES.md":           markdown,
	"include/nicless/opcodes.h": header,
	"cqe/sendop.go":             sendOps,
}

func main() {
	for name, generate := range files {
		if err := os.WriteFile(filepath.Join(root, name), generate(), 0o644); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
}

// known returns the defined opcodes in order.
func known() (list []wqe.Opcode) {
	for n := range 256 {
		if o := wqe.Opcode(n); o.Info().Known() {
			list = append(list, o)
		}
	}
	return list
}

// executed returns the opcodes that the device executes, in order.
func executed() (list []wqe.Opcode) {
	for _, o := range known() {
		if o.Info().Transports != 0 {
			list = append(list, o)
		}
	}
	return list
}

// A text is a file in the making.
type text struct{ bytes.Buffer }

func (t *text) line(format string, args ...any) { fmt.Fprintf(&t.Buffer, format+"\n", args...) }
