package finder

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A tree is a system made of files. The kernel's part is in then: files that appear after a write.
type tree struct {
	t    *testing.T
	s    system
	list []string            // writes, as PATH=VALUE
	then map[string][]string // PATH=VALUE of files that a write makes, by its path
}

func newTree(t *testing.T, files ...string) *tree {
	tr := &tree{t: t, then: make(map[string][]string)}
	tr.s = system{root: t.TempDir(), wrote: func(path, value string) {
		tr.list = append(tr.list, path+"="+value)
		tr.put(tr.then[path]...)
	}}
	tr.put(files...)
	return tr
}

func (tr *tree) put(files ...string) {
	for _, f := range files {
		name, value, _ := strings.Cut(f, "=")
		path := filepath.Join(tr.s.root, name)
		require.NoError(tr.t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(tr.t, os.WriteFile(path, []byte(value+"\n"), 0o644))
	}
}

const pci = "/sys/bus/pci/devices/"

func TestIvshmem(t *testing.T) {
	tr := newTree(t, pci+"0000:00:00.0/vendor=0x8086", pci+"0000:00:00.0/device=0x29c0",
		pci+"0000:00:01.0/vendor=0x1af4", pci+"0000:00:01.0/device=0x1110", pci+"0000:00:01.0/enable=0", pci+"0000:00:01.0/resource2="+strings.Repeat("m", 4095))
	p, err := tr.s.find(PCIe)
	require.NoError(t, err)
	require.Equal(t, []string{pci + "0000:00:01.0/enable=1"}, tr.list)
	require.Equal(t, tr.s.root+pci+"0000:00:01.0/resource2", p.Path)
	require.EqualValues(t, 4096, p.Size)
	require.True(t, p.Coherent)
	require.Equal(t, "pool:"+p.Path+",node=1,coherence=full", p.Link(1))
}

func TestNoDevice(t *testing.T) {
	_, err := newTree(t, pci+"0000:00:00.0/vendor=0x8086", pci+"0000:00:00.0/device=0x29c0").s.find(PCIe)
	require.ErrorContains(t, err, "no PCI device of vendor 0x1af4, device 0x1110 among 1: was QEMU started with -device ivshmem-plain?")
	_, err = newTree(t).s.find(CXL)
	require.ErrorContains(t, err, "no CXL window")
	require.ErrorContains(t, err, "-machine cxl=on")
	_, err = newTree(t).s.find("usb")
	require.ErrorContains(t, err, "lab.pool=usb; pcie and cxl are possible")
}

const (
	cxlBus = "/sys/bus/cxl/devices/"
	ndBus  = "/sys/bus/nd/devices/"
	daxBus = "/sys/bus/dax/"
)

// cxlTree has a CXL device before anything has been written. mode is pmem or ram.
func cxlTree(t *testing.T, mode string) *tree {
	sizes := map[string]string{"pmem": "0x0", "ram": "0x0", mode: "0x40000000"}
	tr := newTree(t, cxlBus+"root0/uevent=", cxlBus+"endpoint3/uevent=", cxlBus+"mem0/pmem/size="+sizes["pmem"], cxlBus+"mem0/ram/size="+sizes["ram"],
		cxlBus+"decoder0.0/create_"+mode+"_region=region7", cxlBus+"decoder0.0/interleave_granularity=256",
		cxlBus+"decoder3.0/mode=none", cxlBus+"decoder3.0/dpa_size=0", "/sys/bus/cxl/drivers/cxl_region/bind=")
	region := []string{}
	for _, f := range []string{"uuid", "interleave_granularity", "interleave_ways", "size", "target0", "commit"} {
		region = append(region, cxlBus+"region7/"+f+"=")
	}
	tr.then[cxlBus+"decoder0.0/create_"+mode+"_region"] = region
	return tr
}

// regionWrites are those that make a region. first are those before the others in the region's folder.
func regionWrites(mode string, first ...string) []string {
	list := []string{cxlBus + "decoder0.0/create_" + mode + "_region=region7", cxlBus + "decoder3.0/mode=" + mode, cxlBus + "decoder3.0/dpa_size=0x40000000"}
	for _, w := range append(first, "interleave_granularity=256", "interleave_ways=1", "size=0x40000000", "target0=decoder3.0", "commit=1") {
		list = append(list, cxlBus+"region7/"+w)
	}
	return append(list, "/sys/bus/cxl/drivers/cxl_region/bind=region7")
}

func TestVolatile(t *testing.T) {
	tr := cxlTree(t, "ram")
	tr.then["/sys/bus/cxl/drivers/cxl_region/bind"] = []string{daxBus + "devices/dax0.0/size=1073741824", daxBus + "drivers/device_dax/new_id="}
	tr.then[daxBus+"drivers/device_dax/new_id"] = []string{"/dev/dax0.0="}
	p, err := tr.s.find(CXL)
	require.NoError(t, err)
	require.Equal(t, append(regionWrites("ram"), daxBus+"drivers/device_dax/new_id=dax0.0"), tr.list)
	require.Equal(t, Pool{Path: tr.s.root + "/dev/dax0.0", Size: 1 << 30, What: "DAX device of a CXL region, 0x0 bytes into the memory"}, p)
	require.Equal(t, "pool:"+p.Path+",node=0,coherence=none", p.Link(0))
}

func TestPersistent(t *testing.T) {
	tr := cxlTree(t, "pmem")
	tr.then["/sys/bus/cxl/drivers/cxl_region/bind"] = []string{ndBus + "region0/size=1073741824", ndBus + "region0/dax_seed=dax0.1",
		ndBus + "namespace0.0/uuid=", ndBus + "namespace0.0/size=0", ndBus + "dax0.1/uuid=", ndBus + "dax0.1/mode=none", ndBus + "dax0.1/align=",
		ndBus + "dax0.1/namespace=", "/sys/bus/nd/drivers/dax_pmem/bind="}
	tr.then["/sys/bus/nd/drivers/dax_pmem/bind"] = []string{daxBus + "devices/dax0.0/size=1071644672", "/dev/dax0.0="}
	p, err := tr.s.find(CXL)
	require.NoError(t, err)
	require.Equal(t, append(regionWrites("pmem", "uuid="+regionUUID),
		ndBus+"namespace0.0/uuid="+namespaceUUID, ndBus+"namespace0.0/size=1073741824",
		ndBus+"dax0.1/uuid="+daxUUID, ndBus+"dax0.1/mode=ram", ndBus+"dax0.1/align=2097152", ndBus+"dax0.1/namespace=namespace0.0",
		"/sys/bus/nd/drivers/dax_pmem/bind=dax0.1"), tr.list)
	require.Equal(t, Pool{Path: tr.s.root + "/dev/dax0.0", Size: 1022 << 20, Offset: InfoSize, What: "DAX device of a CXL region, 0x200000 bytes into the memory"}, p)
}

// A kernel that cannot make a region, or a device that is there twice, is one clear sentence.
func TestRefusals(t *testing.T) {
	tr := cxlTree(t, "ram")
	require.NoError(t, os.Remove(filepath.Join(tr.s.root, cxlBus+"decoder0.0/create_ram_region")))
	_, err := tr.s.find(CXL)
	require.ErrorContains(t, err, "CXL region of volatile memory")
	require.ErrorContains(t, err, "this kernel cannot make one")

	tr = cxlTree(t, "ram")
	tr.put(cxlBus + "endpoint4/uevent=")
	_, err = tr.s.find(CXL)
	require.ErrorContains(t, err, "2 are endpoint of a CXL memory device")
}
