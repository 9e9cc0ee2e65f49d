//go:build linux && (amd64 || arm64)

package object

import (
	"fmt"
	"strings"

	"github.com/nicless/nicless/internal/control"
)

// accessNames are the names of the rights control.Access* in texts for users.
var accessNames = [...]struct {
	right uint32
	name  string
}{
	{control.AccessLocalWrite, "local write"},
	{control.AccessRemoteWrite, "remote write"},
	{control.AccessRemoteRead, "remote read"},
	{control.AccessRemoteAtomic, "remote atomic"},
	{control.AccessMWBind, "bind"},
	{control.AccessZeroBased, "zero-based"},
}

// Rights returns the names of access rights, for example "local write+remote read", or
// "none" for 0. Bits that have no name are shown in hex.
func Rights(access uint32) string {
	var names []string
	for _, a := range accessNames {
		if access&a.right != 0 {
			names = append(names, a.name)
			access &^= a.right
		}
	}
	if access != 0 {
		names = append(names, fmt.Sprintf("%#x", access))
	}
	if names == nil {
		return "none"
	}
	return strings.Join(names, "+")
}

// UnknownRights returns the error that refuses access rights unknown to the device.
func UnknownRights(of string, access uint32) error {
	return control.Errorf(control.CodeInvalid, "%s: access %s; known rights are %s",
		of, Rights(access), strings.ReplaceAll(Rights(control.AccessAll), "+", ", "))
}
