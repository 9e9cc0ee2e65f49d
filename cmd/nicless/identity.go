//go:build linux && (amd64 || arm64)

package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/nicless/nicless/internal/nic"
)

// nameHint says which names of devices are possible.
var nameHint = fmt.Sprintf("a name such as mlx5_%%d, of at most %d bytes; %%d is the number of the device", nic.MaxName)

// checkNames refuses names that so many devices cannot have. set is whether the flag was given: no device has
// the empty name.
func checkNames(command, names string, set bool, devices int) error {
	err := nic.Names(names).Check(devices)
	if set && names == "" {
		err = errors.New("a device needs a name")
	}
	if err != nil {
		return usagef(nameHint, "%s: --device-name: %v", command, err)
	}
	return nil
}

// warnNames warns of a name that libibumad cuts.
func warnNames(w io.Writer, names string, devices int) {
	if last := nic.Names(names).Of(uint8(max(devices-1, 0))); len(last) > nic.MaxMADName {
		fmt.Fprintf(w, "nicless: warning: the device name %s has %d bytes; ibstat, perfquery and other programs of "+
			"libibumad find only names of at most %d\n", last, len(last), nic.MaxMADName)
	}
}
