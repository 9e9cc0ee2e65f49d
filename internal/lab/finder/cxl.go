//go:build linux && (amd64 || arm64)

package finder

import (
	"fmt"
	"strings"
)

const cxlDevices = "/sys/bus/cxl/devices/"

// The same in all machines: the kernel writes some of them into the memory, and refuses what it finds
// there with another one.
const (
	regionUUID    = "0b3ad1a6-9bb4-4d9f-8f5c-6c2f1e1d0001"
	namespaceUUID = "0b3ad1a6-9bb4-4d9f-8f5c-6c2f1e1d0002"
	daxUUID       = "0b3ad1a6-9bb4-4d9f-8f5c-6c2f1e1d0003"
)

// cxl makes a region of all memory of the CXL device, so that the window of physical addresses
// shows it, and then a DAX device of the region. QEMU emulates each access to the window as one of at most
// 8 bytes, without atomic operations between machines. A pool of real CXL 2.0 devices promises no more.
func (s system) cxl() (Pool, error) {
	if _, err := s.read(cxlDevices + "root0/uevent"); err != nil {
		return Pool{}, fmt.Errorf("no CXL window, %w: was QEMU started with -machine cxl=on, and are the modules there?", err)
	}
	endpoint, err := s.wait(cxlDevices+"endpoint*", "endpoint of a CXL memory device")
	if err != nil {
		return Pool{}, err
	}
	mem, err := s.wait(cxlDevices+"mem*", "CXL memory device")
	if err != nil {
		return Pool{}, err
	}
	persistent, err := s.number(cxlDevices + mem + "/pmem/size")
	if err != nil {
		return Pool{}, err
	}
	decoder := "decoder" + strings.TrimPrefix(endpoint, "endpoint") + ".0"
	if persistent > 0 {
		if err := s.region("pmem", decoder, persistent, setting{"uuid", regionUUID}); err != nil {
			return Pool{}, fmt.Errorf("CXL region of persistent memory: %w", err)
		}
		return s.persistent()
	}
	size, err := s.number(cxlDevices + mem + "/ram/size")
	if err != nil {
		return Pool{}, err
	}
	if err := s.region("ram", decoder, size); err != nil {
		return Pool{}, fmt.Errorf("CXL region of volatile memory: %w", err)
	}
	return s.volatile()
}

// window is the decoder of the root that shows the memory. There is one window in this laboratory.
const window = cxlDevices + "decoder0.0/"

// region makes a region of size bytes from the beginning of the memory behind an endpoint's decoder,
// and binds its driver.
func (s system) region(mode, decoder string, size uint64, first ...setting) error {
	create := window + "create_" + mode + "_region"
	name, err := s.read(create)
	if err != nil {
		return fmt.Errorf("%w: this kernel cannot make one", err)
	}
	if err := s.write(create, name); err != nil {
		return err
	}
	granularity, err := s.read(window + "interleave_granularity")
	if err != nil {
		return err
	}
	bytes := fmt.Sprintf("%#x", size)
	if err := s.set(cxlDevices+decoder, setting{"mode", mode}, setting{"dpa_size", bytes}); err != nil {
		return err
	}
	list := append(first, setting{"interleave_granularity", granularity}, setting{"interleave_ways", "1"},
		setting{"size", bytes}, setting{"target0", decoder}, setting{"commit", "1"})
	if err := s.set(cxlDevices+name, list...); err != nil {
		return err
	}
	if err := s.write("/sys/bus/cxl/drivers/cxl_region/bind", name); err != nil {
		return fmt.Errorf("%w; a kernel of 6.12 wants -cpu max,-hypervisor", err)
	}
	return nil
}
