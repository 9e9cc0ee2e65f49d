//go:build linux && (amd64 || arm64)

package gpu

// Occupancy returns how many blocks of a kernel, of so many threads and with so many bytes of dynamic shared
// memory, a multiprocessor has at a time. Multiprocessors times as many are the most of a cooperative launch.
func (d *Device) Occupancy(stub uint64, threads int, shared uint64) (int, Code) {
	_, k, c := d.kernel(stub)
	if c != Success {
		return 0, c
	}
	if threads < 1 {
		return 0, InvalidValue
	}
	return k.Resident(threads, shared), Success
}
