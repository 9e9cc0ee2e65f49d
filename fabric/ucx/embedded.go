//go:build shim

package ucx

import _ "embed"

// embedded is the program nicless-ucx, built by make -C fabric/ucx/carrier OUT=nicless-ucx.
//
//go:embed carrier/nicless-ucx
var embedded []byte

func init() { program = embedded }
