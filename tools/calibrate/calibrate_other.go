//go:build !(linux && (amd64 || arm64))

package calibrate

import (
	"context"

	"github.com/nicless/nicless/internal/platform"
)

// Run returns an error: on this system threads cannot be kept on cores.
func Run(context.Context, Options) (Result, error) {
	return Result{}, platform.Unsupported("calibrate")
}
