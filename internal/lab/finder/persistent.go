//go:build linux && (amd64 || arm64)

package finder

const (
	ndDevices = "/sys/bus/nd/devices/"

	// InfoSize is the room that the kernel takes at the beginning of a namespace: for its info block,
	// which is at byte 4096, up to the next multiple of the alignment.
	InfoSize = 2 << 20
)

// persistent makes a namespace of all memory of a region, and of it a DAX device. A namespace that is there
// already, from another machine, is accepted: it has the same numbers.
func (s system) persistent() (Pool, error) {
	namespace, err := s.wait(ndDevices+"namespace*", "namespace of the region")
	if err != nil {
		return Pool{}, err
	}
	size, err := s.read(ndDevices + "region0/size")
	if err != nil {
		return Pool{}, err
	}
	if err := s.set(ndDevices+namespace, setting{"uuid", namespaceUUID}, setting{"size", size}); err != nil {
		return Pool{}, err
	}
	seed, err := s.read(ndDevices + "region0/dax_seed")
	if err != nil {
		return Pool{}, err
	}
	if err := s.set(ndDevices+seed, setting{"uuid", daxUUID}, setting{"mode", "ram"},
		setting{"align", "2097152"}, setting{"namespace", namespace}); err != nil {
		return Pool{}, err
	}
	if err := s.write("/sys/bus/nd/drivers/dax_pmem/bind", seed); err != nil {
		return Pool{}, err
	}
	name, err := s.wait("/sys/bus/dax/devices/dax*", "DAX device of the namespace")
	if err != nil {
		return Pool{}, err
	}
	return s.dax(name, InfoSize)
}
