//go:build linux && (amd64 || arm64)

package finder

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// The PCI device ivshmem-plain. Its third BAR is the memory. Source: QEMU, docs/specs/ivshmem-spec.rst.
const (
	ivshmemVendor = "0x1af4"
	ivshmemDevice = "0x1110"
	ivshmemMemory = "resource2"
)

// ivshmem finds the memory behind a PCI device. No driver is needed: the file of the BAR can be
// mapped when the device is enabled.
func (s system) ivshmem() (Pool, error) {
	const devices = "/sys/bus/pci/devices"
	list, err := os.ReadDir(s.at(devices))
	if err != nil {
		return Pool{}, err
	}
	for _, d := range list {
		dir := filepath.Join(devices, d.Name())
		vendor, err1 := s.read(dir + "/vendor")
		device, err2 := s.read(dir + "/device")
		if err := errors.Join(err1, err2); err != nil {
			return Pool{}, err
		}
		if vendor != ivshmemVendor || device != ivshmemDevice {
			continue
		}
		if err := s.write(dir+"/enable", "1"); err != nil {
			return Pool{}, err
		}
		path := filepath.Join(dir, ivshmemMemory)
		info, err := os.Stat(s.at(path))
		if err != nil {
			return Pool{}, err
		}
		return Pool{Path: s.at(path), Size: uint64(info.Size()), Coherent: true,
			What: "BAR of PCI device " + d.Name()}, nil
	}
	return Pool{}, fmt.Errorf("no PCI device of vendor %s, device %s among %d: was QEMU started with -device ivshmem-plain?", ivshmemVendor, ivshmemDevice, len(list))
}
