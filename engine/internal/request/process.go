//go:build linux && (amd64 || arm64)

package request

import (
	"github.com/nicless/nicless/engine/internal/execution"
	"github.com/nicless/nicless/engine/internal/mailbox"
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/engine/internal/process"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/nic"
)

// ShareProcess says that memory which the client registers outside its regions, from now
// on, is memory of a process. Rings and records still need a region. The caller knows from
// the kernel that the process is the client's (SO_PEERCRED). The device must be allowed to
// trace the process: by uid and, with Yama, by PR_SET_PTRACER.
//
// A process of another user is refused even where the device could trace it. Such a process
// could hold up the device with a page fault whose handling it controls (FUSE,
// userfaultfd). Processes of the device's own user can hold up the device anyway.
//
// A client of another user is refused too, whichever user owns the process now. After the client
// connected, its process may have executed a program that runs as the device's user, or may have
// ended, so that such a program could get its pid.
//
// The guard g identifies the program whose memory it is, which a pid alone does not.
func (c *Client) ShareProcess(pid int, g nic.Guard) error {
	c.Mu.Lock()
	defer c.Mu.Unlock()
	switch {
	case c.Closed:
		return object.ErrClosed
	case c.Process != nil && c.Process.Pid == pid:
		return nil
	case c.Process != nil:
		return control.Errorf(control.CodeInvalid, "process %d: this client's memory is that of process %d", pid, c.Process.Pid)
	}
	if err := c.Device.Ledger.Take(c.UID, process.Charge); err != nil {
		return err
	}
	p, err := process.Open(pid, c.UID, g)
	if err != nil {
		c.Device.Ledger.Refund(c.UID, process.Charge)
		return control.Errorf(control.CodeMemory, "process %d: %v", pid, err)
	}
	between := make([]byte, execution.UnmappedBytes*len(c.Device.Shards))
	c.Device.DoWith(mailbox.NoWork, func() {
		c.Process, c.ProcessRegion = p, &object.Region{Size: ^uint64(0)}
		for i, sh := range c.Device.Shards {
			if sh.Scratch.Unmapped.Between == nil {
				sh.Scratch.Unmapped.Between = between[i*execution.UnmappedBytes:][:execution.UnmappedBytes]
			}
		}
	})
	return nil
}

// closeProcess releases the client's process. No key refers to the process any more.
func (c *Client) closeProcess() {
	p := c.Process
	if p == nil {
		return
	}
	c.Process, c.ProcessRegion = nil, nil
	c.After = append(c.After, func() {
		_ = p.Life.Close()
		c.Device.Ledger.Refund(c.UID, process.Charge)
	})
}
