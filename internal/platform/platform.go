// Package platform has the error of functions that work only on Linux on amd64 or arm64.
//
// Formats, words in memory and the posting path work everywhere. Code that needs the system
// calls of the device is in files with the constraint
//
//	//go:build linux && (amd64 || arm64)
//
// If other packages use such code, a file with the opposite constraint has functions of the
// same names that return this error.
package platform

import (
	"errors"
	"fmt"
	"runtime"
)

// errSystem is the part of the error that names the system. It wraps errors.ErrUnsupported.
var errSystem = fmt.Errorf("needs Linux on amd64 or arm64, this is %s on %s (%w)", runtime.GOOS, runtime.GOARCH, errors.ErrUnsupported)

// Unsupported returns the error of something that cannot work on this system. The argument what
// is the name of that thing.
func Unsupported(what string) error { return fmt.Errorf("%s %w", what, errSystem) }
