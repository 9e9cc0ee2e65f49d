//go:build unix

package main

import (
	"os"
	"syscall"
)

// hangup is the signal that a terminal sends when it closes; nil where there is none.
var hangup os.Signal = syscall.SIGHUP
