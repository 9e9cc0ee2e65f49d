//go:build linux && (amd64 || arm64)

package verbs

import "github.com/nicless/nicless/verbs/internal/mad"

// counterFields has the field of each counter of a port, by its name in sysfs (ports/1/counters).
var counterFields = map[string]func(*mad.Counters) *uint64{
	"symbol_error":                    func(c *mad.Counters) *uint64 { return &c.SymbolErrors },
	"link_error_recovery":             func(c *mad.Counters) *uint64 { return &c.LinkRecoveries },
	"link_downed":                     func(c *mad.Counters) *uint64 { return &c.LinkDowned },
	"port_rcv_errors":                 func(c *mad.Counters) *uint64 { return &c.RcvErrors },
	"port_rcv_remote_physical_errors": func(c *mad.Counters) *uint64 { return &c.RemotePhysical },
	"port_rcv_switch_relay_errors":    func(c *mad.Counters) *uint64 { return &c.RelayErrors },
	"port_xmit_discards":              func(c *mad.Counters) *uint64 { return &c.XmitDiscards },
	"port_xmit_constraint_errors":     func(c *mad.Counters) *uint64 { return &c.XmitConstraint },
	"port_rcv_constraint_errors":      func(c *mad.Counters) *uint64 { return &c.RcvConstraint },
	"local_link_integrity_errors":     func(c *mad.Counters) *uint64 { return &c.LocalIntegrity },
	"excessive_buffer_overrun_errors": func(c *mad.Counters) *uint64 { return &c.Overruns },
	"VL15_dropped":                    func(c *mad.Counters) *uint64 { return &c.VL15Dropped },
	"port_xmit_data":                  func(c *mad.Counters) *uint64 { return &c.XmitData },
	"port_rcv_data":                   func(c *mad.Counters) *uint64 { return &c.RcvData },
	"port_xmit_packets":               func(c *mad.Counters) *uint64 { return &c.XmitPackets },
	"port_rcv_packets":                func(c *mad.Counters) *uint64 { return &c.RcvPackets },
	"port_xmit_wait":                  func(c *mad.Counters) *uint64 { return &c.XmitWait },
	"unicast_xmit_packets":            func(c *mad.Counters) *uint64 { return &c.UnicastXmit },
	"unicast_rcv_packets":             func(c *mad.Counters) *uint64 { return &c.UnicastRcv },
	"multicast_xmit_packets":          func(c *mad.Counters) *uint64 { return &c.MulticastXmit },
	"multicast_rcv_packets":           func(c *mad.Counters) *uint64 { return &c.MulticastRcv },
}

// counted returns the counters of a device's port since they were reset. The caller holds the lock.
func (m *mads) counted(d *device) (c mad.Counters) {
	if m.counters == nil {
		return c
	}
	for name, value := range m.counters(d) {
		if field := counterFields[name]; field != nil {
			*field(&c) = value - m.reset[counterOf{d, name}]
		}
	}
	return c
}

// resetCounters has the counters of a device's port count from 0, those of management datagrams only.
func (m *mads) resetCounters(d *device) {
	if m.counters == nil {
		return
	}
	for name, value := range m.counters(d) {
		m.reset[counterOf{d, name}] = value
	}
}

// A counterOf names a counter of a device.
type counterOf struct {
	device *device
	name   string
}
