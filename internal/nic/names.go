package nic

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Names are the names of the devices that clients see, one at each port: "mlx5_%d", with the number of the
// device, from 0, in place of %d. Without %d, only one device can have the name. "" is DefaultNames.
type Names string

// DefaultNames are the names of devices that nobody has named.
const DefaultNames Names = "nicless%d"

// MaxName is the most bytes of a device's name (IB_DEVICE_NAME_MAX in Linux, less its terminating zero).
const MaxName = 63

// MaxMADName is the most bytes of the names that libibumad takes (UMAD_CA_NAME_LEN, less the terminating
// zero): ibstat, perfquery and the like do not find devices with longer ones.
const MaxMADName = 19

// index is what stands for the number of a device.
const index = "%d"

// Of returns the name of device n. Clients in Go are at port 0, the first device.
func (p Names) Of(n uint8) string {
	if p == "" {
		p = DefaultNames
	}
	return strings.Replace(string(p), index, strconv.Itoa(int(n)), 1)
}

// Check says why so many devices cannot have these names, or returns nil. The names are file names below
// /sys/class/infiniband and lines of the files there, so Linux's rules for those hold too.
func (p Names) Check(devices int) error {
	if p == "" {
		return nil
	}
	counts := strings.Contains(string(p), index)
	longest := p.Of(uint8(max(devices-1, 0)))
	switch {
	case len(longest) > MaxName:
		return fmt.Errorf("device name %.20q... of %d bytes; at most %d are possible", longest, len(longest), MaxName)
	case strings.Contains(strings.Replace(string(p), index, "", 1), "%"):
		return fmt.Errorf("device name %q; a name has at most one %%, as %%d, the number of the device", string(p))
	case longest == "." || longest == "..":
		return fmt.Errorf("device name %q; this is no name of a file", string(p))
	case devices > 1 && !counts:
		return fmt.Errorf("device name %q for %d devices; %%d in the name is their number, as in %q", string(p),
			devices, string(p)+"_%d")
	}
	for _, r := range string(p) {
		if r == '/' || r == utf8.RuneError || !unicode.IsPrint(r) {
			return fmt.Errorf("device name %q has the character %q; all that can be printed but / is possible",
				string(p), r)
		}
	}
	return nil
}
