//go:build linux && (amd64 || arm64)

package object

import "encoding/binary"

// GID returns the device's address. It is link-local and made from the GUID.
func (e *Device) GID() (g [16]byte) {
	g[0], g[1] = 0xfe, 0x80
	binary.BigEndian.PutUint64(g[8:], e.GUID)
	return g
}

// HasSource reports whether a datagram of the client goes over a link from this address, or comes there.
// network says that the link is RoCE. It is called for each datagram that comes: lists are short.
func (c *Client) HasSource(gid *[16]byte, network bool) bool {
	for i := range c.Sources {
		if s := &c.Sources[i]; s.GID == *gid && (s.Network || !network) {
			return true
		}
	}
	return false
}

// Network reports whether strangers can send packets to this port: RoCE makes the GRH of its datagrams
// itself. The peers of other ports are engines that trust each other with addresses.
func (p *Port) Network() bool { return !p.Settings.GRH }
