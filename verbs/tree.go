//go:build linux && (amd64 || arm64)

package verbs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// The files that libibverbs and other programs read below /sys are written to a directory of
// the server. The shim redirects the programs' paths to this directory.

// files returns the contents of a device's files, by path.
func (d *device) files() map[string]string {
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
		n := fmt.Sprint(i)
		t[port+"gids/"+n] = gidText(d.gids[i])
		if i < gidsPresent {
			t[port+"gid_attrs/types/"+n] = gidTypeNames[gidType(i)]
			t[port+"gid_attrs/ndevs/"+n] = "lo"
		}
	}
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

// treeName is the name of the tree. It is in the directory that Serve makes.
const treeName = "sys"

// writeTree writes the tree to dir/sys. libibverbs recognises a device by its name and the
// time of its directory, so every file and directory gets the same time.
func (s *Server) writeTree(dir string) error {
	root := filepath.Join(dir, treeName)
	if err := os.RemoveAll(root); err != nil {
		return fmt.Errorf("verbs: tree left behind: %w", err)
	}
	all := map[string]string{"class/infiniband_verbs/abi_version": "6"}
	for _, d := range s.devices {
		for name, text := range d.files() {
			all[name] = text
		}
	}
	var errs []error
	for name, text := range all {
		path := filepath.Join(root, name)
		errs = append(errs, os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text+"\n"), 0o644))
	}
	now := time.Now()
	errs = append(errs, filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
		return errors.Join(err, os.Chtimes(path, now, now))
	}))
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("verbs: tree: %w", err)
	}
	return nil
}
