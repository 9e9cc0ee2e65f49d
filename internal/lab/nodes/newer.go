//go:build linux && (amd64 || arm64)

package nodes

import (
	"os"
	"path/filepath"

	vm "github.com/nicless/nicless/internal/lab"
)

// Kernel is the package of Debian's kernel for virtual machines. It starts in half the time of the full one.
const Kernel = "linux-image-cloud-amd64"

// suite is where what is newer than Debian 12 comes from.
const suite = "bookworm-backports"

// A Newer is QEMU and a kernel from Debian's backports. They know volatile CXL memory.
type Newer struct {
	Kernel vm.Kernel
	qemu   string
	data   []string // folders of QEMU's data
}

// FetchNewer fetches and unpacks both, without installing them.
func FetchNewer() (Newer, error) {
	apt, err := vm.Suite(suite)
	if err != nil {
		return Newer{}, err
	}
	k, err := apt.Kernel(Kernel)
	if err != nil {
		return Newer{}, err
	}
	n := Newer{Kernel: k}
	for _, name := range []string{"qemu-system-x86", "qemu-system-data", "seabios"} {
		dir, err := apt.Unpack(name)
		if err != nil {
			return Newer{}, err
		}
		if n.qemu == "" {
			path := filepath.Join(dir, "usr/bin/qemu-system-x86_64")
			if _, err := os.Stat(path); err == nil {
				n.qemu = path
			}
		}
		for _, data := range []string{"usr/share/qemu", "usr/share/seabios"} {
			if _, err := os.Stat(filepath.Join(dir, data)); err == nil {
				n.data = append(n.data, filepath.Join(dir, data))
			}
		}
	}
	return n, nil
}

// Variables returns what the scripts have to find in their environment.
func (n Newer) Variables() []string {
	data := "LAB_QEMU_DATA="
	for _, dir := range n.data {
		data += "-L " + dir + " "
	}
	return []string{"LAB_QEMU=" + n.qemu, data, "LAB_CXL=volatile"}
}
