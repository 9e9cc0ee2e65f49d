//go:build linux && (amd64 || arm64)

package verbs

import (
	"encoding/binary"
	"fmt"
)

// A device is what a program sees as uverbsN and as niclessN.
type device struct {
	index uint32
	guid  uint64
	gids  [gidTable][16]byte
}

// What programs see of a device.
const (
	devMajor = 231 // IB_UVERBS_MAJOR of the kernel
	devMinor = 192 // IB_UVERBS_BASE_MINOR, of uverbs0
	vendorID = 0x02c9
	partID   = 0x1019 // ConnectX-5 Ex, which every version of libmlx5 knows
	fwMajor  = 16
	fwMinor  = 35
	fwSub    = 2000

	gidTable    = 16 // entries
	gidsPresent = 4  // entries that are not empty
)

// newDevice derives the identity of a device from the engine's GUID, which is also the GUID
// of the first device.
func newDevice(index uint32, guid uint64) *device {
	d := &device{index: index, guid: guid + uint64(index)}
	var local, v4 [16]byte
	local[0], local[1] = 0xfe, 0x80
	binary.BigEndian.PutUint64(local[8:], d.guid)
	v4[10], v4[11] = 0xff, 0xff // ::ffff:169.254.x.y, a link-local address
	v4[12], v4[13] = 169, 254
	v4[14], v4[15] = byte(d.guid>>8), byte(d.guid)
	d.gids = [gidTable][16]byte{local, local, v4, v4}
	return d
}

func (d *device) name() string { return fmt.Sprintf("nicless%d", d.index) }

// guidText returns the GUID as sysfs writes it.
func (d *device) guidText() string {
	g := d.guid
	return fmt.Sprintf("%04x:%04x:%04x:%04x", g>>48, g>>32&0xffff, g>>16&0xffff, g&0xffff)
}

// mac returns the Ethernet address of a device.
func (d *device) mac() (m [6]byte) {
	var g [8]byte
	binary.BigEndian.PutUint64(g[:], d.guid)
	copy(m[:3], g[:3])
	copy(m[3:], g[5:])
	m[0] = m[0]&^1 | 2 // unicast, locally administered
	return m
}

// deviceOf returns the device of this engine that has a GID, nil if there is none.
func (s *Server) deviceOf(gid []byte) *device {
	for _, d := range s.devices {
		for _, g := range d.gids[:gidsPresent] {
			if string(g[:]) == string(gid) {
				return d
			}
		}
	}
	return nil
}
