//go:build shim

package main

import "github.com/nicless/nicless/verbs"

// embeddedShim is the library that programs preload.
var embeddedShim = verbs.Shim
