package verbs

import (
	"encoding/binary"
	"fmt"
)

// A device is one uverbsN.
type device struct {
	index uint32
	guid  uint64
	gids  [gidTable][16]byte
}

// Numbers that programs see of a device.
const (
	devMajor    = 231
	devMinor    = 192
	vendorID    = 0x02c9
	partID      = 0x1019 // every libmlx5 knows it
	fwMajor     = 16
	fwMinor     = 35
	fwSub       = 2000
	gidTable    = 16
	gidsPresent = 4
)

// newDevice derives an identity from the engine's: its own for the first.
func newDevice(index uint32, guid uint64) *device {
	d := &device{index: index, guid: guid + uint64(index)}
	var local, v4 [16]byte
	local[0], local[1] = 0xfe, 0x80
	binary.BigEndian.PutUint64(local[8:], d.guid)
	v4[10], v4[11] = 0xff, 0xff // ::ffff:169.254.x.y
	v4[12], v4[13] = 169, 254
	v4[14], v4[15] = byte(d.guid>>8), byte(d.guid)
	d.gids = [gidTable][16]byte{local, local, v4, v4}
	return d
}

func (d *device) name() string { return fmt.Sprintf("nicless%d", d.index) }

// guidText is as in sysfs.
func (d *device) guidText() string {
	g := d.guid
	return fmt.Sprintf("%04x:%04x:%04x:%04x", g>>48, g>>32&0xffff, g>>16&0xffff, g&0xffff)
}

// mac is the address that a GID stands for.
func (d *device) mac() (m [6]byte) {
	var g [8]byte
	binary.BigEndian.PutUint64(g[:], d.guid)
	copy(m[:3], g[:3])
	copy(m[3:], g[5:])
	m[0] = m[0]&^1 | 2 // of one station, locally administered
	return m
}

// reach returns the device that has a GID, nil if it is none of this engine.
func (s *Server) reach(gid []byte) *device {
	for _, d := range s.devices {
		for _, g := range d.gids[:gidsPresent] {
			if string(g[:]) == string(gid) {
				return d
			}
		}
	}
	return nil
}
