//go:build linux && (amd64 || arm64)

package verbs

import (
	"embed"
	"io/fs"
)

//go:embed record/*.c record/*.h record/flags
var recordSources embed.FS

// RecordSources returns what the library that programs of nicless record preload is built from, as
// ShimSources does for the other one. It includes headers of rdma-core: infiniband/verbs.h and mlx5dv.h.
func RecordSources() fs.FS {
	sources, err := fs.Sub(recordSources, "record")
	if err != nil {
		panic("verbs: " + err.Error()) // the name is valid
	}
	return sources
}
