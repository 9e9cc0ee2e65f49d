//go:build !shim

package main

// embeddedShim is the library that programs preload, in a build with -tags shim.
var embeddedShim []byte
