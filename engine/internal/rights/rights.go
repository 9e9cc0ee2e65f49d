//go:build linux && (amd64 || arm64)

// Package rights has the access rights that the device knows, and their names in texts for users.
package rights

import (
	"fmt"
	"strings"

	"github.com/nicless/nicless/internal/control"
)

// names are the names of the rights control.Access*.
var names = [...]struct {
	right uint32
	name  string
}{
	{control.AccessLocalWrite, "local write"},
	{control.AccessRemoteWrite, "remote write"},
	{control.AccessRemoteRead, "remote read"},
	{control.AccessRemoteAtomic, "remote atomic"},
	{control.AccessMWBind, "bind"},
	{control.AccessZeroBased, "zero-based"},
	{control.AccessRelaxedOrdering, "relaxed ordering"},
}

// Names returns the names of access rights, for example "local write+remote read", or "none" for 0. Bits
// that have no name are shown in hex.
func Names(access uint32) string {
	var list []string
	for _, a := range names {
		if access&a.right != 0 {
			list = append(list, a.name)
			access &^= a.right
		}
	}
	if access != 0 {
		list = append(list, fmt.Sprintf("%#x", access))
	}
	if list == nil {
		return "none"
	}
	return strings.Join(list, "+")
}

// Unknown returns the error that refuses access rights unknown to the device. of says whose they are.
func Unknown(of string, access uint32) error {
	return control.Errorf(control.CodeInvalid, "%s: access %s; known rights are %s",
		of, Names(access), strings.ReplaceAll(Names(control.AccessAll), "+", ", "))
}
