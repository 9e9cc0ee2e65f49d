// Command opcodes writes the files that repeat facts of the packages wqe and cqe: the document
// docs/OPCODES.md, the C header include/nicless/opcodes.h and the Go file cqe/sendop.go.
//
// Run it with go generate ./internal/opcodes after a change of the tables. Its test fails
// while one of the files is out of date.
package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"

	"github.com/nicless/nicless/wqe"
)

//go:generate go run .

// root is the path of the module's folder from this folder.
const root = "../.."

// files has the functions that return the generated files, by the files' paths in the module.
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

// A text is a file that is being written.
type text struct{ bytes.Buffer }

func (t *text) line(format string, args ...any) { fmt.Fprintf(&t.Buffer, format+"\n", args...) }
