//go:build linux && (amd64 || arm64)

package verbs

import (
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/verbs/internal/nldev"
	"golang.org/x/sys/unix"
)

// The counters of a port, in the kernel's two directories: ports/1/counters (pma_attrs_ext in the kernel's
// core/sysfs.c) and ports/1/hw_counters (hw/mlx5/counters.c). The engine counts for each client, and adds the
// clients up when the server asks. It is asked at most once in lifespan for all devices together.

// A counter is a file of a port, and its value.
type counter struct {
	name  string
	value uint64
}

// lifespan is how old a value may be that programs read. The kernel has the same default for hw_counters.
const lifespan = 10 * time.Millisecond

// lifespanName is the file beside the hw_counters with the lifespan in milliseconds.
const lifespanName = "lifespan"

// A trafficCache has the counts of all ports as the engine has said last. There is one for all devices,
// because each question holds up the engine for a walk over all clients.
type trafficCache struct {
	mu     sync.Mutex
	when   time.Time
	values []nic.PortCounts // by port
}

// traffic returns the counts of a device's port. It is safe for concurrent use.
func (s *Server) traffic(d *device) nic.PortCounts {
	c := &s.counted
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := time.Now(); c.when.IsZero() || now.Sub(c.when) >= lifespan {
		c.values, c.when = s.engine.PortCounts(), now
	}
	return c.values[d.index]
}

// wordSize is the unit of port_xmit_data and port_rcv_data, in bytes.
const wordSize = 4

// portCounters returns the files of ports/1/counters in the kernel's order. It is safe for concurrent use.
func (s *Server) portCounters(d *device) []counter {
	n := s.traffic(d)
	return []counter{
		{"symbol_error", 0},
		{"link_error_recovery", 0},
		{"link_downed", 0},
		{"port_rcv_errors", 0},
		{"port_rcv_remote_physical_errors", 0},
		{"port_rcv_switch_relay_errors", 0},
		{"port_xmit_discards", 0},
		{"port_xmit_constraint_errors", 0},
		{"port_rcv_constraint_errors", 0},
		{"local_link_integrity_errors", 0},
		{"excessive_buffer_overrun_errors", 0},
		{"VL15_dropped", 0},
		{"port_xmit_data", n[nic.SentBytes] / wordSize},
		{"port_rcv_data", n[nic.GotBytes] / wordSize},
		{"port_xmit_packets", n[nic.SentPackets]},
		{"port_rcv_packets", n[nic.GotPackets]},
		{"port_xmit_wait", 0},
		{"unicast_rcv_packets", n[nic.GotPackets] - n[nic.GotMulticast]},
		{"unicast_xmit_packets", n[nic.SentPackets] - n[nic.SentMulticast]},
		{"multicast_rcv_packets", n[nic.GotMulticast]},
		{"multicast_xmit_packets", n[nic.SentMulticast]},
	}
}

// hwCounters returns the files of ports/1/hw_counters, without lifespan, in the kernel's order. It is safe
// for concurrent use.
func (s *Server) hwCounters(d *device) []counter {
	n := s.traffic(d)
	return []counter{
		{"rx_write_requests", n[nic.GotWrites]},
		{"rx_read_requests", n[nic.GotReads]},
		{"rx_atomic_requests", n[nic.GotAtomics]},
		{"out_of_buffer", n[nic.OutOfBuffer]},
		{"out_of_sequence", n[nic.OutOfSequence]},
		{"duplicate_request", n[nic.Duplicates]},
		{"rnr_nak_retry_err", n[nic.RNRNaks]},
		{"packet_seq_err", n[nic.SequenceNaks]},
		{"implied_nak_seq_err", n[nic.ImpliedNaks]},
		{"local_ack_timeout_err", n[nic.AckTimeouts]},
		{"resp_local_length_error", n[nic.RespLength]},
		{"resp_cqe_error", n[nic.RespErrors]},
		{"req_cqe_error", n[nic.ReqErrors]},
		{"req_remote_invalid_request", n[nic.ReqInvalid]},
		{"req_remote_access_errors", n[nic.ReqAccess]},
		{"resp_remote_access_errors", n[nic.RespAccess]},
		{"resp_cqe_flush_error", n[nic.RespFlushed]},
		{"req_cqe_flush_error", n[nic.ReqFlushed]},
		{"roce_adp_retrans", 0},
		{"roce_adp_retrans_to", 0},
		{"roce_slow_restart", 0},
		{"roce_slow_restart_cnps", 0},
		{"roce_slow_restart_trans", 0},
		{"rp_cnp_ignored", 0},
		{"rp_cnp_handled", n[nic.CNPs]},
		{"np_ecn_marked_roce_packets", 0},
		{"np_cnp_sent", 0},
		{"rx_icrc_encapsulated", 0},
	}
}

// netlinkCounters returns what rdma statistic shows of a port: as from the kernel, its hw_counters.
func (s *Server) netlinkCounters(d *device) (all []nldev.Counter) {
	for _, c := range s.hwCounters(d) {
		all = append(all, nldev.Counter{Name: c.name, Value: c.value})
	}
	return all
}

// madCounters returns what perfquery shows of a port, by the names in ports/1/counters.
func (s *Server) madCounters(d *device) map[string]uint64 {
	all := make(map[string]uint64)
	for _, c := range s.portCounters(d) {
		all[c.name] = c.value
	}
	return all
}

// counterFiles returns the contents of the files of both directories, by path below a tree.
func (s *Server) counterFiles(d *device) map[string]string {
	port, t := d.ibDir()+"/ports/1/", make(map[string]string)
	for _, c := range s.portCounters(d) {
		t[port+"counters/"+c.name] = strconv.FormatUint(c.value, 10)
	}
	for _, c := range s.hwCounters(d) {
		t[port+"hw_counters/"+c.name] = strconv.FormatUint(c.value, 10)
	}
	t[port+"hw_counters/"+lifespanName] = strconv.FormatInt(lifespan.Milliseconds(), 10)
	return t
}

// counterText returns the contents of the file of a counter; path is below a tree.
func (s *Server) counterText(path string) (text string, ok bool) {
	for _, d := range s.devices {
		below, ok := strings.CutPrefix(path, d.ibDir()+"/ports/1/")
		if !ok {
			continue
		}
		directory, name, _ := strings.Cut(below, "/")
		switch {
		case below == "hw_counters/"+lifespanName:
			return strconv.FormatInt(lifespan.Milliseconds(), 10), true
		case directory == "counters":
			return textOf(s.portCounters(d), name)
		case directory == "hw_counters":
			return textOf(s.hwCounters(d), name)
		}
	}
	return "", false
}

// textOf returns the contents of the file of the counter with this name.
func textOf(all []counter, name string) (text string, ok bool) {
	for _, c := range all {
		if c.name == name {
			return strconv.FormatUint(c.value, 10), true
		}
	}
	return "", false
}

// maxCounterPath is the length of the longest path in an NV_COUNTER.
const maxCounterPath = 512

// counter serves NV_COUNTER: it answers with the contents of a counter's file at this moment.
func (p *process) counter(h wireHeader, b []byte, _ []nic.File) ([]byte, []*os.File, error) {
	if len(b) > maxCounterPath {
		return nil, nil, errWire
	}
	path := strings.TrimRight(string(b), "\x00")
	if _, below, ok := strings.Cut(path, "/"+treeName+"/"); ok {
		if text, ok := p.s.counterText(below); ok {
			return append(append(appendAnswer(nil, h, 0, 0), text...), '\n'), nil, nil
		}
	}
	return nil, nil, expected(unix.ENOENT, "counter: %q is none", path)
}
