// Package platform has the error of what works on Linux on amd64 or arm64 only.
//
// Formats, words in memory and the posting path work everywhere. What needs the device's
// system calls is in files with the constraint
//
//	//go:build linux && (amd64 || arm64)
//
// and where other packages use it, a file with the opposite constraint returns this error.
package platform

import (
	"errors"
	"fmt"
	"runtime"
)

// errSystem is its text. It is an errors.ErrUnsupported.
var errSystem = fmt.Errorf("needs Linux on amd64 or arm64, this is %s on %s (%w)", runtime.GOOS, runtime.GOARCH, errors.ErrUnsupported)

// Unsupported returns the error of something that cannot work on this system, by its name.
func Unsupported(what string) error { return fmt.Errorf("%s %w", what, errSystem) }
