//go:build linux && (amd64 || arm64)

package verbs

import (
	"fmt"
	"os"
	"path"
	"slices"
	"strings"
)

// A pciPlace is the place of a server's devices in the tree of PCI functions. Programs find a
// device's function by the real path of /sys/class/infiniband/NAME/device, and then read files
// there and in the directories above it. As on most machines, the function is behind a root
// port: NCCL takes all functions of bus 0 whose path differs in the device number only for one
// card, and the first of them is the host bridge.
type pciPlace struct {
	port string // address of the root port, such as 0000:00:1e.0
	bus  int    // bus number of the functions behind the root port
}

// pciDevices is where the kernel lists the functions of this machine.
const pciDevices = "/sys/bus/pci/devices"

// freePlaces returns places for n devices that no function of this machine has. The shim
// redirects a path in /sys/devices only if the kernel has no such file.
func freePlaces(n int) []pciPlace {
	taken := make(map[string]bool) // slots, such as 0000:00:1e, and buses, such as 0000:5a
	entries, _ := os.ReadDir(pciDevices)
	for _, e := range entries {
		name, _, _ := strings.Cut(e.Name(), ".")
		taken[name] = true
		if i := strings.LastIndexByte(name, ':'); i >= 0 {
			taken[name[:i]] = true
		}
	}
	var list []pciPlace
	bus := 0x5a
	for i := range n {
		for taken[fmt.Sprintf("0000:%02x", bus)] && bus < 0xff {
			bus++
		}
		slot := 0x1e - i/pciFunctions
		for taken[fmt.Sprintf("0000:00:%02x", slot)] && slot > 1 {
			slot--
		}
		list = append(list, pciPlace{fmt.Sprintf("0000:00:%02x.%x", slot, i%pciFunctions), bus})
		bus++
	}
	return list
}

// pciFunctions is how many functions a device of the PCI bus can have.
const pciFunctions = 8

// function returns the name of the device's function.
func (p pciPlace) function() string { return fmt.Sprintf("0000:%02x:00.0", p.bus) }

// bridge returns the path of the root port, without /sys.
func (p pciPlace) bridge() string { return "devices/pci0000:00/" + p.port }

// dir returns the path of the device's function, without /sys.
func (p pciPlace) dir() string { return p.bridge() + "/" + p.function() }

// A pciFunction has what differs between functions.
type pciFunction struct {
	name, driver               string
	vendor, device             int
	subsystemVendor, subsystem int
	class                      int
	width                      int
	speed                      string
}

func (f pciFunction) modalias() string {
	return fmt.Sprintf("pci:v%08Xd%08Xsv%08Xsd%08Xbc%02Xsc%02Xi%02X", f.vendor, f.device, f.subsystemVendor, f.subsystem,
		f.class>>16, f.class>>8&0xff, f.class&0xff)
}

// files returns the contents of the function's files, by name.
func (f pciFunction) files() map[string]string {
	list := onlineCPUs()
	t := map[string]string{
		"vendor":             fmt.Sprintf("%#04x", f.vendor),
		"device":             fmt.Sprintf("%#04x", f.device),
		"subsystem_vendor":   fmt.Sprintf("0x%04x", f.subsystemVendor),
		"subsystem_device":   fmt.Sprintf("0x%04x", f.subsystem),
		"class":              fmt.Sprintf("%#06x", f.class),
		"revision":           "0x00",
		"modalias":           f.modalias(),
		"numa_node":          "-1",
		"local_cpulist":      list,
		"local_cpus":         cpuMask(list),
		"max_link_speed":     f.speed,
		"current_link_speed": f.speed,
		"max_link_width":     fmt.Sprint(f.width),
		"current_link_width": fmt.Sprint(f.width),
		"enable":             "1",
		"irq":                "0",
		"resource":           strings.Repeat(noResource+"\n", 12) + noResource,
		"power_state":        "D0",
		"uevent": fmt.Sprintf("DRIVER=%s\nPCI_CLASS=%X\nPCI_ID=%04X:%04X\nPCI_SUBSYS_ID=%04X:%04X\nPCI_SLOT_NAME=%s\nMODALIAS=%s",
			f.driver, f.class, f.vendor, f.device, f.subsystemVendor, f.subsystem, f.name, f.modalias()),
	}
	return t
}

// noResource is a line of the file resource for a BAR that the function does not have.
const noResource = "0x0000000000000000 0x0000000000000000 0x0000000000000000"

// Vendor and class numbers of the PCI specification, and Mellanox's numbers.
const (
	pciMellanox      = 0x15b3
	pciSubsystem     = 8
	pciIntel         = 0x8086
	pciRootPort      = 0x2030 // a root port of a server processor
	pciClassBridge   = 0x060400
	pciClassEthernet = 0x020000
	pciSpeed         = "16.0 GT/s PCIe"
	pciWidth         = 16
)

// onlineCPUs returns the list of the processors of this machine, in the form that it has in /sys.
func onlineCPUs() string {
	text, err := os.ReadFile("/sys/devices/system/cpu/online")
	if list := strings.TrimSpace(string(text)); err == nil && list != "" {
		return list
	}
	return "0"
}

// cpuMask changes a list of processors, such as 0-3,7, to the mask that /sys has beside it.
func cpuMask(list string) (mask string) {
	words := make([]uint32, 1)
	for _, span := range strings.Split(list, ",") {
		var first, last int
		if n, _ := fmt.Sscanf(span, "%d-%d", &first, &last); n < 2 { // one processor
			last = first
		}
		for cpu := first; cpu <= last && cpu < 1<<13; cpu++ {
			for len(words) <= cpu/32 {
				words = append(words, 0)
			}
			words[cpu/32] |= 1 << (cpu % 32)
		}
	}
	slices.Reverse(words) // the highest word comes first
	for i, w := range words {
		if i > 0 {
			mask += ","
		}
		mask += fmt.Sprintf("%08x", w)
	}
	return mask
}

// pciFiles returns the contents of the files of the device's PCI function and of its root port.
func (d *device) pciFiles() map[string]string {
	t := make(map[string]string)
	add := func(dir string, f pciFunction) {
		for name, text := range f.files() {
			t[dir+"/"+name] = text
		}
	}
	add(d.place.bridge(), pciFunction{name: d.place.port, driver: "pcieport", vendor: pciIntel,
		device: pciRootPort, subsystemVendor: pciIntel, class: pciClassBridge, width: pciWidth,
		speed: pciSpeed})
	add(d.place.dir(), pciFunction{name: d.place.function(), driver: "mlx5_core", vendor: pciMellanox,
		device: partID, subsystemVendor: pciMellanox, subsystem: pciSubsystem, class: pciClassEthernet,
		width: pciWidth, speed: pciSpeed})
	return t
}

// links returns the targets of the symbolic links of a device's files, by path. Targets are
// relative, as the kernel's are.
func (d *device) links() map[string]string {
	uverbs := fmt.Sprintf("uverbs%d", d.index)
	function, ib, uv := d.place.dir(), d.ibDir(), d.uverbsDir()
	targets := map[string]string{
		"class/infiniband/" + d.name:                              ib,
		"class/infiniband_verbs/" + uverbs:                        uv,
		fmt.Sprintf("dev/char/%d:%d", devMajor, devMinor+d.index): uv,
		"bus/pci/devices/" + d.place.function():                   function,
		"bus/pci/devices/" + d.place.port:                         d.place.bridge(),
		"bus/pci/drivers/mlx5_core/" + d.place.function():         function,
		function + "/subsystem":                                   "bus/pci",
		function + "/driver":                                      "bus/pci/drivers/mlx5_core",
		d.place.bridge() + "/subsystem":                           "bus/pci",
		ib + "/device":                                            function,
		ib + "/subsystem":                                         "class/infiniband",
		uv + "/device":                                            function,
		uv + "/subsystem":                                         "class/infiniband_verbs",
	}
	targets[fmt.Sprintf("class/infiniband_mad/umad%d", d.index)] = d.umadDir()
	targets[fmt.Sprintf("dev/char/%d:%d", devMajor, umadMinor+d.index)] = d.umadDir()
	targets[d.umadDir()+"/device"] = function
	if d.lid != 0 {
		targets[fmt.Sprintf("class/infiniband_mad/issm%d", d.index)] = d.issmDir()
		targets[fmt.Sprintf("dev/char/%d:%d", devMajor, issmMinor+d.index)] = d.issmDir()
		targets[d.issmDir()+"/device"] = function
	}
	t := make(map[string]string, len(targets))
	for at, to := range targets {
		t[at] = relative(path.Dir(at), to)
	}
	return t
}

// relative returns the path of `to` as seen from a directory. Both are relative to one
// directory.
func relative(dir, to string) string {
	a, b := strings.Split(dir, "/"), strings.Split(to, "/")
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	if n == len(b) && n > 0 { // the target is above the link: its last name is kept, as the kernel does
		n--
	}
	return strings.Repeat("../", len(a)-n) + strings.Join(b[n:], "/")
}
