//go:build !unix

package main

import "os"

var hangup os.Signal // see hangup.go
