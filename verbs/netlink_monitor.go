//go:build linux && (amd64 || arm64)

package verbs

import "github.com/nicless/nicless/verbs/internal/nldev"

// Monitors: sockets of NETLINK_RDMA that have joined the group of notifications (rdma monitor). Devices do
// not come while a server runs; they go with it.

// notifyMonitors sends a message to the monitors that wants selects.
func (l *netlinks) notifyMonitors(message []byte, wants func(*netlinkSocket) bool) {
	l.mu.Lock()
	var to []*netlinkSocket
	for _, k := range l.all {
		k.mu.Lock()
		joined := k.groups>>(nldev.GroupNotify-1)&1 != 0
		k.mu.Unlock()
		if joined && wants(k) {
			to = append(to, k)
		}
	}
	l.mu.Unlock()
	for _, k := range to {
		k.send(message)
	}
}

// notifyGone notifies all monitors that the devices go.
func (s *Server) notifyGone() {
	for _, d := range s.devices {
		s.netlink.notifyMonitors(d.netlinkInfo().DeviceEvent(nldev.Unregister),
			func(*netlinkSocket) bool { return true })
	}
}

// notifyNetdev notifies the monitors of a namespace that the interface of the devices has changed there.
func (s *Server) notifyNetdev(n *netns, before nldev.Netdev) {
	after := *n.netdev()
	if after == before {
		return
	}
	for _, d := range s.devices {
		if d.lid != 0 {
			continue
		}
		info, here := d.netlinkInfo(), func(k *netlinkSocket) bool { return k.net == n }
		s.netlink.notifyMonitors(info.NetdevEvent(nldev.NetdevDetach, 1, before), here)
		s.netlink.notifyMonitors(info.NetdevEvent(nldev.NetdevAttach, 1, after), here)
	}
}
