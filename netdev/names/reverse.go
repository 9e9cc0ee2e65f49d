package names

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// reversed returns the address that a name of in-addr.arpa or ip6.arpa stands for (RFC 1035, 3.5; RFC 3596,
// 2.5). name is in lower case.
func reversed(name string) (ip netip.Addr, ok bool) {
	if rest, ok := strings.CutSuffix(name, ".in-addr.arpa."); ok {
		labels := strings.Split(rest, ".")
		slices.Reverse(labels)
		ip, err := netip.ParseAddr(strings.Join(labels, "."))
		return ip, err == nil && ip.Is4()
	}
	rest, ok := strings.CutSuffix(name, ".ip6.arpa.")
	labels := strings.Split(rest, ".")
	if !ok || len(labels) != 32 {
		return ip, false
	}
	var b [16]byte
	for i, label := range labels {
		digit, err := strconv.ParseUint(label, 16, 4)
		if err != nil || len(label) != 1 {
			return ip, false
		}
		b[15-i/2] |= byte(digit) << (4 * (i % 2))
	}
	return netip.AddrFrom16(b), true
}
