//go:build linux && (amd64 || arm64)

package engine

import (
	"fmt"
	"strings"

	"github.com/nicless/nicless/internal/control"
)

// accessNames are the rights control.Access* as texts to users name them.
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

// rights names access rights: "local write+remote read", "none" for 0. Bits that have
// no name are shown in hex.
func rights(access uint32) string {
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

// unknownRights refuses access rights that the device does not know.
func unknownRights(of string, access uint32) error {
	return control.Errorf(control.CodeInvalid, "%s: access %s; known rights are %s",
		of, rights(access), strings.ReplaceAll(rights(control.AccessAll), "+", ", "))
}
