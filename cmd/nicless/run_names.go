//go:build linux && (amd64 || arm64)

package main

import (
	"regexp"

	"github.com/ianlancetaylor/demangle"
)

// mangled is the name of a function of C++ as compilers write it in PTX.
var mangled = regexp.MustCompile(`\b_Z[\w$]+`)

// readable writes the functions of a text as C++ does, for people: post(params) for _Z4post6params. The
// libraries of emulated GPUs, which are another module, have the same.
func readable(text string) string {
	return mangled.ReplaceAllStringFunc(text, func(name string) string { return demangle.Filter(name) })
}
