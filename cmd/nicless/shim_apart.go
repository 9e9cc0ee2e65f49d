//go:build !shim

package main

// embeddedShim is the library that programs preload. It is nil in this build; only a build
// with -tags shim contains the library.
var embeddedShim []byte
