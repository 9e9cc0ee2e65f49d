package programs

import (
	"net"
	"testing"
)

// hostAddress returns an IPv4 address of an interface, or a loopback address if the host has no
// other.
func hostAddress(t *testing.T) string {
	t.Helper()
	all, _ := net.InterfaceAddrs()
	for _, a := range all {
		if n, ok := a.(*net.IPNet); ok && n.IP.To4() != nil && !n.IP.IsLoopback() && !n.IP.IsLinkLocalUnicast() {
			return n.IP.String()
		}
	}
	return "127.0.0.1"
}
