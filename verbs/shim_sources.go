//go:build linux && (amd64 || arm64)

package verbs

import (
	"embed"
	"io/fs"
)

//go:embed shim/*.c shim/*.h shim/flags
var shimSources embed.FS

// ShimSources returns what the library that programs preload is built from: its C sources,
// and a file "flags" with the compiler's arguments. `cc @flags -o FILE *.c -ldl` builds it.
func ShimSources() fs.FS {
	sources, err := fs.Sub(shimSources, "shim")
	if err != nil {
		panic("verbs: " + err.Error()) // the name is valid
	}
	return sources
}
