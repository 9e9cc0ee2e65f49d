//go:build linux && (amd64 || arm64)

package verbs

import "github.com/nicless/nicless/field/devx"

// maxAnswer is the longest answer: that of QUERY_HCA_CAP.
const maxAnswer = devx.HeadSize + devx.CapsSize
