//go:build !shim

package main

// embeddedShim is the library that programs preload; only a build with -tags shim has it.
var embeddedShim []byte
