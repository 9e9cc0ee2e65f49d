//go:build linux && (amd64 || arm64)

package verbs

import (
	"fmt"
	"strconv"
)

// The files that libibverbs and other programs read below /sys are written to a directory of
// the server. The shim redirects the programs' paths to this directory.

// files returns the contents of a device's files, by path, as programs in a network namespace
// find them.
func (d *device) files(n *netns) map[string]string {
	ib := "class/infiniband/" + d.name() + "/"
	uv := fmt.Sprintf("class/infiniband_verbs/uverbs%d/", d.index)
	port := ib + "ports/1/"
	t := map[string]string{
		uv + "ibdev":           d.name(),
		uv + "dev":             fmt.Sprintf("%d:%d", devMajor, devMinor+d.index),
		uv + "abi_version":     "1",
		ib + "node_type":       "1: CA",
		ib + "node_guid":       d.guidText(),
		ib + "sys_image_guid":  d.guidText(),
		ib + "node_desc":       d.name(),
		ib + "board_id":        "NICLESS",
		ib + "hca_type":        "MT4121",
		ib + "hw_rev":          "0",
		ib + "fw_ver":          fmt.Sprintf("%d.%d.%04d", fwMajor, fwMinor, fwSub),
		ib + "device/modalias": fmt.Sprintf("pci:v%08Xd%08Xsv%08Xsd%08Xbc02sc00i00", 0x15b3, partID, 0x15b3, 8),
		ib + "device/vendor":   "0x15b3", ib + "device/device": fmt.Sprintf("%#04x", partID),
		ib + "device/numa_node": "-1",
		port + "state":          "4: ACTIVE",
		port + "phys_state":     "5: LinkUp",
		port + "rate":           "100 Gb/sec (4X EDR)",
		port + "link_layer":     "Ethernet",
		port + "lid":            "0x0", port + "lid_mask_count": "0",
		port + "sm_lid": "0x0", port + "sm_sl": "0",
		port + "cap_mask": fmt.Sprintf("%#08x", portCaps),
		port + "pkeys/0":  "0xffff",
	}
	for i := range gidTable {
		e, ok := n.entry(d, i)
		index := strconv.Itoa(i)
		t[port+"gids/"+index] = gidText(e.gid)
		if ok {
			t[port+"gid_attrs/types/"+index] = gidTypeNames[e.kind]
			t[port+"gid_attrs/ndevs/"+index] = e.ifname
		}
	}
	net := ib + "device/net/" + n.interfaceName() + "/"
	t[net+"dev_port"] = "0"
	return t
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
