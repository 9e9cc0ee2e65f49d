//go:build linux && (amd64 || arm64)

package verbs

import (
	"fmt"
	"strconv"

	"github.com/nicless/nicless/verbs/internal/abi"
)

// The files that libibverbs and other programs read below /sys are written to a directory of
// the server. The shim redirects the programs' paths to this directory.

// files returns the contents of a device's files, by path, as programs in a network namespace
// find them.
func (d *device) files(n *netns) map[string]string {
	ib, uv := d.ibDir()+"/", d.uverbsDir()+"/"
	port := ib + "ports/1/"
	_, link := d.linkLayer()
	state, physical := d.portState()
	t := map[string]string{
		uv + "ibdev":           d.name,
		uv + "dev":             fmt.Sprintf("%d:%d", devMajor, devMinor+d.index),
		uv + "abi_version":     "1",
		d.umadDir() + "/ibdev": d.name, d.umadDir() + "/port": "1",
		d.umadDir() + "/dev":  fmt.Sprintf("%d:%d", devMajor, umadMinor+d.index),
		uv + "uevent":         fmt.Sprintf("MAJOR=%d\nMINOR=%d\nDEVNAME=infiniband/uverbs%d", devMajor, devMinor+d.index, d.index),
		ib + "node_type":      "1: CA",
		ib + "node_guid":      d.guidText(),
		ib + "sys_image_guid": d.guidText(),
		ib + "node_desc":      d.name,
		ib + "board_id":       boardID,
		ib + "hca_type":       "MT4121",
		ib + "hw_rev":         "0",
		ib + "fw_ver":         fmt.Sprintf("%d.%d.%04d", fwMajor, fwMinor, fwSub),
		port + "state":        portStates[state],
		port + "phys_state":   physicalStates[physical],
		port + "rate":         "100 Gb/sec (4X EDR)",
		port + "link_layer":   link,
		port + "lid":          fmt.Sprintf("%#x", d.lid), port + "lid_mask_count": "0",
		port + "sm_lid": fmt.Sprintf("%#x", d.subnetManager()), port + "sm_sl": "0",
		port + "cap_mask": fmt.Sprintf("%#08x", d.portCaps()),
		port + "pkeys/0":  "0xffff",
	}
	if d.lid != 0 { // a port of RoCE has no subnet manager
		t[d.issmDir()+"/ibdev"], t[d.issmDir()+"/port"] = d.name, "1"
		t[d.issmDir()+"/dev"] = fmt.Sprintf("%d:%d", devMajor, issmMinor+d.index)
	}
	for i := range d.gidEntries() {
		e, ok := n.entry(d, i)
		index := strconv.Itoa(i)
		t[port+"gids/"+index] = gidText(e.gid)
		if ok {
			t[port+"gid_attrs/types/"+index] = gidTypeNames[e.kind]
			if d.lid == 0 {
				t[port+"gid_attrs/ndevs/"+index] = e.ifname
			}
		}
	}
	if d.lid == 0 { // there is no IPoIB
		t[d.place.dir()+"/net/"+n.interfaceName()+"/dev_port"] = "0"
	}
	for name, text := range d.pciFiles() {
		t[name] = text
	}
	return t
}

// States of a port as sysfs writes them (state_show and phys_state_to_str in Linux).
var (
	portStates     = map[uint8]string{abi.PortDown: "1: DOWN", abi.PortActive: "4: ACTIVE"}
	physicalStates = map[uint8]string{2: "2: Polling", 3: "3: Disabled", 5: "5: LinkUp"}
)

// ibDir returns the path of the device's files, without /sys.
func (d *device) ibDir() string { return d.place.dir() + "/infiniband/" + d.name }

// uverbsDir returns the path of the files of the device's descriptor, without /sys.
func (d *device) uverbsDir() string {
	return fmt.Sprintf("%s/infiniband_verbs/uverbs%d", d.place.dir(), d.index)
}

// umadDir and issmDir return the paths of the files of the device's management datagrams, without /sys.
func (d *device) umadDir() string {
	return fmt.Sprintf("%s/infiniband_mad/umad%d", d.place.dir(), d.index)
}
func (d *device) issmDir() string {
	return fmt.Sprintf("%s/infiniband_mad/issm%d", d.place.dir(), d.index)
}

func gidText(g [16]byte) (s string) {
	for i := 0; i < 16; i += 2 {
		if i > 0 {
			s += ":"
		}
		s += fmt.Sprintf("%02x%02x", g[i], g[i+1])
	}
	return s
}
