//go:build linux && (amd64 || arm64)

package finder

import (
	"fmt"
)

// volatile binds the DAX device of a region of volatile memory to the driver that lets programs map it. (The
// other driver, kmem, would give the memory to this kernel, as others do to theirs.)
func (s system) volatile() (Pool, error) {
	name, err := s.wait("/sys/bus/dax/devices/dax*", "DAX device of the region")
	if err != nil {
		return Pool{}, err
	}
	if err := s.write("/sys/bus/dax/drivers/device_dax/new_id", name); err != nil {
		return Pool{}, err
	}
	return s.dax(name, 0)
}

// dax returns the pool of a DAX device. Its first byte is at offset in the file that QEMU was given.
func (s system) dax(name string, offset uint64) (Pool, error) {
	if _, err := s.wait("/dev/"+name, "DAX device that programs can map"); err != nil {
		return Pool{}, err
	}
	size, err := s.number("/sys/bus/dax/devices/" + name + "/size")
	if err != nil {
		return Pool{}, err
	}
	return Pool{Path: s.at("/dev/" + name), Size: size, Offset: offset, What: fmt.Sprintf("DAX device of a CXL region, %#x bytes into the memory", offset)}, nil
}
