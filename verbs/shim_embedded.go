//go:build shim

package verbs

import _ "embed"

// Shim is the library that programs preload, built by make -C verbs/shim OUT=libnicless_verbs.so.
//
//go:embed shim/libnicless_verbs.so
var Shim []byte
