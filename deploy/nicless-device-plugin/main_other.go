//go:build !(linux && (amd64 || arm64))

// The command nicless-device-plugin needs Linux on amd64 or arm64.
package main

import (
	"fmt"
	"os"
	"runtime"
)

func main() {
	fmt.Fprintf(os.Stderr, "nicless-device-plugin needs Linux on amd64 or arm64, this is %s on %s\n", runtime.GOOS, runtime.GOARCH)
	os.Exit(1)
}
