// Abi makes the files of verbs/internal/abi, which has constants only. names.txt says which names of C they
// have, and a C compiler says what these are in the headers of Linux and rdma-core that are installed
// (linux-libc-dev and libibverbs-dev of Debian).
//
//	go run ./tools/abi      from the root, after a change of names.txt
//
// The test of this package compares what the generator makes with the files.
package main

import (
	"bytes"
	_ "embed"
	"fmt"
	"go/format"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

const folder = "verbs/internal/abi"

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "abi: error:", err)
		os.Exit(1)
	}
}

func run() error {
	files, err := parse(names)
	if err != nil {
		return err
	}
	for _, f := range files {
		text, err := f.generate()
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(folder, f.name), text, 0o644); err != nil {
			return err
		}
	}
	return nil
}

//go:embed names.txt
var names string

// A file is one of the package.
type file struct {
	name, header, about string
	groups              []*group
}

// A group is constants with one comment.
type group struct {
	comment string
	of      string // the structure, or what its enumerators begin with
	prefix  string // prefix of the Go names
	fields  bool   // whether the group is the fields of a structure
	bits    bool
	list    []constant
}

// A constant has a Go name, and the C expression that it equals.
type constant struct{ name, expression, value string }

// parse reads the form that names.txt explains.
func parse(text string) (files []*file, err error) {
	words := map[string]string{}
	var g *group
	for n, line := range strings.Split(text, "\n") {
		f := strings.Fields(line)
		switch {
		case len(f) == 0 || f[0] == "#":
		case f[0] == "words":
			for _, w := range f[1:] {
				words[strings.ToLower(w)] = w
			}
		case f[0] == "file" && len(f) > 3:
			files = append(files, &file{name: f[1], header: f[2], about: strings.Join(f[3:], " ")})
		case f[0] == "struct" && len(f) == 3 && files != nil:
			g = files[len(files)-1].add(
				&group{comment: "struct " + f[1] + ".", of: f[1], prefix: f[2], fields: true})
			g.list = append(g.list,
				constant{name: g.prefix + "Size", expression: "sizeof(struct " + g.of + ")"})
		case f[0] == "enum" && len(f) > 3 && files != nil:
			g = files[len(files)-1].add(&group{of: f[1], prefix: strings.Trim(f[2], "-")})
			if f = f[3:]; f[0] == "bits" {
				g.bits, f = true, f[1:]
			}
			g.comment = strings.Join(f, " ")
		case line[0] == '\t' && g != nil:
			for _, token := range f {
				g.list = append(g.list, g.constant(token, words))
			}
		default:
			return nil, fmt.Errorf("names.txt:%d: %q is not understood", n+1, line)
		}
	}
	return files, nil
}

func (f *file) add(g *group) *group {
	f.groups = append(f.groups, g)
	return g
}

// constant returns a field or enumerator of a group. A token is NAME or NAME=GoName.
func (g *group) constant(token string, words map[string]string) constant {
	c, name, given := strings.Cut(token, "=")
	if !given {
		for _, w := range strings.FieldsFunc(c, func(r rune) bool { return r == '_' || r == '.' }) {
			if w = strings.ToLower(w); words[w] != "" {
				name += words[w]
			} else {
				name += strings.ToUpper(w[:1]) + w[1:]
			}
		}
	}
	if g.fields {
		return constant{name: g.prefix + name, expression: "offsetof(struct " + g.of + ", " + c + ")"}
	}
	return constant{name: g.prefix + name, expression: g.of + c}
}

// evaluate has a C compiler evaluate all expressions of a file.
func (f *file) evaluate() error {
	dir, err := os.MkdirTemp("", "nicless-abi-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	text := "#include <stddef.h>\n#include <stdio.h>\n#include <linux/if_ether.h>\n#include <" + f.header + ">\nint main(void)\n{\n"
	var all []*constant
	for _, g := range f.groups {
		for i := range g.list {
			all = append(all, &g.list[i])
			text += fmt.Sprintf("\tprintf(\"%%lld\\n\", (long long)(%s));\n", g.list[i].expression)
		}
	}
	source, program := filepath.Join(dir, "abi.c"), filepath.Join(dir, "abi")
	if err := os.WriteFile(source, []byte(text+"}\n"), 0o600); err != nil {
		return err
	}
	if said, err := exec.Command("cc", "-o", program, source).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", f.name, err, said)
	}
	said, err := exec.Command(program).Output()
	if err != nil {
		return err
	}
	values := strings.Fields(string(said))
	if len(values) != len(all) {
		return fmt.Errorf("%s: %d values of %d expressions", f.name, len(values), len(all))
	}
	for i, c := range all {
		c.value = values[i]
	}
	return nil
}

// write returns a value as Go has it: large ones in hexadecimal, and bits as such.
func (g *group) write(value string) string {
	v, err := strconv.ParseUint(value, 10, 63)
	switch {
	case err != nil: // negative
		return value
	case g.bits && v != 0 && v&(v-1) == 0:
		n := 0
		for ; v > 1; v >>= 1 {
			n++
		}
		return fmt.Sprintf("1 << %d", n)
	case v >= 0x1000:
		return fmt.Sprintf("%#x", v)
	}
	return value
}

// generate returns the text of the file.
func (f *file) generate() ([]byte, error) {
	if err := f.evaluate(); err != nil {
		return nil, err
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "// Code generated by tools/abi from the headers of Linux and rdma-core. DO NOT EDIT.\n\npackage abi\n\n// %s: %s\n", f.header, f.about)
	for _, g := range f.groups {
		fmt.Fprintf(&b, "\n// %s\nconst (\n", g.comment)
		for _, c := range g.list {
			fmt.Fprintf(&b, "\t%s = %s // %s\n", c.name, g.write(c.value), c.expression)
		}
		b.WriteString(")\n")
	}
	text, err := format.Source(b.Bytes())
	if err != nil {
		err = fmt.Errorf("%s: %w", f.name, err)
	}
	return text, err
}
