//go:build linux && (amd64 || arm64)

package gpu

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

// noteOrder writes for nicless run which stores of kernels the device and the host have seen in another
// order than a lane has stored them: a file for each device, and all of them each time.
func (d *Device) noteOrder() {
	if d.late == nil || d.system.cfg.Orders == "" {
		return
	}
	d.orderMu.Lock()
	defer d.orderMu.Unlock()
	all := d.late.Overtakings()
	if len(all) == d.overtakings {
		return
	}
	d.overtakings = len(all)
	text, err := json.Marshal(all)
	name := filepath.Join(d.system.cfg.Orders, fmt.Sprintf("%d-%d.json", os.Getpid(), d.number))
	if err == nil {
		err = os.WriteFile(name, text, 0o600)
	}
	if err != nil {
		d.system.report("the order of stores cannot be noted: %v", err)
	}
}
