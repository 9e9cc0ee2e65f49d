//go:build linux && (amd64 || arm64)

package verbs

import (
	"fmt"
	"os"
	"strings"

	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/verbs/internal/abi"
)

// libibverbs and libmlx5 refuse some calls themselves, for example a queue pair that is too large, and then
// no call arrives here. A server cannot see that a program got an error. But it can report what a program has
// done, and what is likely if the program failed. This is to be shown only if the program is known to have
// failed.

// IfFailed begins the line for watchers about a program that has ended without a refused call.
// A watcher shows it only if the program failed.
const IfFailed = "if it failed: "

// A history is what a process has done with its devices.
type history struct {
	calls   int
	refused bool // a call was refused, which has been reported
	last    string
	did     map[string]bool // names of the calls that succeeded
	sendsUD bool
	ready   bool // a queue pair has reached RTS
	noDEVX  bool // a context was refused because of DEVX, and none was made since
	looked  [len(looks)]bool
}

// looks says why the devices are not in the places where a program has looked for them (NV_AT_*). NAME is the
// name of a device.
var looks = [...]string{
	atPCI: "it read a list of PCI functions (/sys/bus/pci), which is the kernel's: " +
		"only /sys/class/infiniband/NAME/device leads to the function of NAME",
	atNetdev: "it looked below a network interface (/sys/class/net/*/device/infiniband), and the device is not the " +
		"hardware of one: /sys/class/infiniband/NAME/ports/1/gid_attrs/ndevs names the interface of each address",
}

// look serves NV_LOOK: the program looks for devices where these devices are not.
func (p *process) look(h wireHeader, b []byte, _ []nic.File) ([]byte, []*os.File, error) {
	if len(b) != lookSize {
		return nil, nil, errWire
	}
	place := le.Uint32(b)
	if place >= uint32(len(looks)) {
		return nil, nil, refuse(eINVAL, "place %d; %d are known", place, len(looks))
	}
	p.past.looked[place] = true
	return appendAnswer(nil, h, 0, 0), nil, nil
}

// note records a call.
func (h *history) note(c *call, err error) {
	h.calls++
	h.last = c.name()
	if err != nil {
		return
	}
	if h.did == nil {
		h.did = make(map[string]bool)
	}
	h.did[h.last] = true
	if h.last == "QP.CREATE" && c.value(abi.AttrCreateQPType) == abi.QPTUD {
		h.sendsUD = true
	}
}

// explain returns the line for watchers in case the process failed.
func (h *history) explain() string {
	if h.noDEVX {
		// If the program had not asked for it, libmlx5 would have opened the device without.
		return "mlx5dv_open_device with MLX5DV_CONTEXT_FLAGS_DEVX was refused with EINVAL, because the program may not have firmware commands (DEVX): " +
			"it was started by nicless run --no-devx, or the engine by nicless engine --no-devx; nicless run --devx allows them"
	}
	if !h.did["WRITE.ALLOC_PD"] { // the program has only asked about devices
		return fmt.Sprintf("none of its calls was refused here, and it has only asked about the device; its last call here was %s. "+
			"Likely: something outside of the device, such as a connection by TCP to a peer that is not running, "+
			"or a capability that this device does not have, if the program looked for one in the answers to "+
			"ibv_query_device, ibv_query_port or ibv_query_gid", h.last)
	}
	return fmt.Sprintf("none of its calls was refused here; its last call here was %s. If a function of libibverbs or libmlx5 returned an error, "+
		"the library returned it without asking nicless. Likely: %s. If the program says that something else failed, such as a TCP connection, "+
		"the device has no part in it; but the engine of the peer may have refused a call there, which nicless run --explain says there", h.last, h.likely())
}

// likely names functions that refuse something themselves (rdma-core, providers/mlx5/verbs.c)
// and that come next in most programs.
func (h *history) likely() string {
	switch {
	case h.sendsUD && !h.did["WRITE.CREATE_AH"]:
		return "ibv_create_ah, if the address has no GID (is_global 0), which on Ethernet it needs"
	case h.did["QP.CREATE"] && !h.ready:
		return "something outside of the device, such as a peer that is not running or has failed, because no queue pair of the program reached RTS; " +
			"or ibv_post_send before RTS (ENOMEM), or ibv_post_recv in RESET (EINVAL)"
	case h.did["QP.CREATE"]:
		return "ibv_post_send or ibv_post_recv, if the queue is full or was made for fewer SGEs or less inline data, or for another opcode"
	case h.did["CQ.CREATE"]:
		return "ibv_create_qp, if it asks for more than ibv_query_device reports (max_qp_wr, max_sge), or for so many SGEs or so much inline data that " +
			"all work requests together take more room than the longest send queue has; or ibv_create_qp_ex, for a field or flag that libmlx5 does not know"
	}
	return "ibv_create_cq_ex, for a field or flag that libmlx5 does not know, or ibv_reg_mr, if the memory could not be excluded from forks"
}

// ended sends the watchers what is likely if the process failed.
func (p *process) ended() {
	switch {
	case p.past.refused || !p.greeted:
	case p.past.calls > 0:
		p.s.watched.send(p.lineage, p.uid, "%s%s", IfFailed, p.past.explain())
	default:
		p.s.watched.send(p.lineage, p.uid, "%sit looked for devices and opened none of them; it could have opened %s%s",
			IfFailed, p.s.deviceNames(), p.looked())
	}
}

// looked says why the program has found nothing in some places, after what is said about it.
func (p *process) looked() string {
	var b strings.Builder
	for place, why := range looks {
		if p.past.looked[place] {
			b.WriteString("; ")
			b.WriteString(strings.ReplaceAll(why, "NAME", p.s.devices[0].name))
		}
	}
	return b.String()
}

// deviceNames returns the names of the devices.
func (s *Server) deviceNames() string {
	var names []string
	for _, d := range s.devices {
		names = append(names, d.name)
	}
	return strings.Join(names, " and ")
}
