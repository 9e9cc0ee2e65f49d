//go:build linux && (amd64 || arm64)

package verbs

import (
	"encoding/binary"
	"fmt"

	"github.com/nicless/nicless/verbs/internal/nldev"
)

// Answers of NETLINK_RDMA about devices. They agree with the files of tree.go.

// Versions of the interfaces of character devices.
const (
	uverbsABI = 1 // MLX5_IB_UVERBS_ABI_VERSION
	cmABI     = 4 // RDMA_USER_CM_ABI_VERSION
	umadABI   = 5 // IB_USER_MAD_ABI_VERSION
)

// devicePorts is the number of ports of each device.
const devicePorts = 1

// netlinkInfo returns the device as netlink shows it.
func (d *device) netlinkInfo() *nldev.Device {
	protocol := "roce"
	if d.lid != 0 {
		protocol = "ib"
	}
	const adapter = 1 // RDMA_NODE_IB_CA
	return &nldev.Device{Index: d.index, Name: d.name, Ports: devicePorts, CapFlags: deviceCaps,
		Firmware: fmt.Sprintf("%d.%d.%04d", fwMajor, fwMinor, fwSub), NodeGUID: d.guid,
		SystemImageGUID: d.guid, NodeType: adapter, Protocol: protocol}
}

// device returns the device that a request names.
func (c *netlinkCall) device() (*device, error) {
	index, ok := c.attrs.Uint32(nldev.AttrDevIndex)
	if !ok {
		return nil, eINVAL
	}
	for _, d := range c.k.s.devices {
		if d.index == index {
			return d, nil
		}
	}
	return nil, eINVAL
}

// devicePort returns the device and checks the port that a request names.
func (c *netlinkCall) devicePort() (*device, uint32, error) {
	d, err := c.device()
	port, ok := c.attrs.Uint32(nldev.AttrPortIndex)
	if err != nil || !ok || port < 1 || port > devicePorts {
		return nil, 0, eINVAL
	}
	return d, port, nil
}

func getDevice(c *netlinkCall) (nldev.List, error) {
	d, err := c.device()
	if err != nil {
		return nil, err
	}
	return d.netlinkInfo().Attributes(), nil
}

func dumpDevices(c *netlinkCall) (*netlinkDump, error) {
	var all []nldev.List
	for _, d := range c.k.s.devices {
		all = append(all, d.netlinkInfo().Attributes())
	}
	return c.once(nldev.CmdGet, all...), nil
}

func getPort(c *netlinkCall) (nldev.List, error) {
	d, port, err := c.devicePort()
	if err != nil {
		return nil, err
	}
	return c.portAttributes(d, port), nil
}

func dumpPorts(c *netlinkCall) (*netlinkDump, error) {
	d, err := c.device()
	if err != nil {
		return nil, err
	}
	return c.once(nldev.CmdPortGet, c.portAttributes(d, 1)), nil
}

func (c *netlinkCall) portAttributes(d *device, port uint32) nldev.List {
	p := nldev.Port{Number: port}
	p.State, p.PhysicalState = d.portState()
	if d.lid != 0 {
		local := d.linkLocal()
		p.IB = &nldev.IBPort{CapFlags: uint64(d.portCaps()), SubnetPrefix: binary.BigEndian.Uint64(local[:]),
			LID: uint32(d.lid), SMLID: uint32(d.subnetManager())}
	} else {
		p.Netdev = c.k.net.netdev()
	}
	return d.netlinkInfo().PortAttributes(p)
}

// netdev returns the interface that is a device's own.
func (n *netns) netdev() *nldev.Netdev {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return &nldev.Netdev{Index: n.home.ifindex, Name: n.home.ifname}
}

func getSystem(*netlinkCall) (nldev.List, error) { return nldev.System(), nil }

// A charDevKind is a kind of character devices, for GET_CHARDEV.
type charDevKind struct {
	perDevice, perPort bool
	number             func(d *device) nldev.CharDev
}

// charDevKinds has the kinds by the name of the kernel's client.
var charDevKinds = map[string]charDevKind{
	"uverbs": {perDevice: true, number: func(d *device) nldev.CharDev {
		const mlx5 = 1 // RDMA_DRIVER_MLX5
		return nldev.CharDev{Name: fmt.Sprintf("uverbs%d", d.index), ABI: uverbsABI,
			Major: devMajor, Minor: devMinor + d.index, DriverID: mlx5}
	}},
	"umad": {perDevice: true, perPort: true, number: func(d *device) nldev.CharDev {
		return nldev.CharDev{Name: fmt.Sprintf("umad%d", d.index), ABI: umadABI,
			Major: devMajor, Minor: umadMinor + d.index}
	}},
	"rdma_cm": {number: func(*device) nldev.CharDev {
		return nldev.CharDev{Name: "rdma_cm", ABI: cmABI, Major: cmMajor, Minor: cmMinor}
	}},
}

func getCharDev(c *netlinkCall) (nldev.List, error) {
	if !c.attrs.Has(nldev.AttrCharDevType) {
		return nil, eINVAL
	}
	kind, known := charDevKinds[c.attrs.Text(nldev.AttrCharDevType)]
	var d *device
	var err error
	hasDevice, hasPort := c.attrs.Has(nldev.AttrDevIndex), c.attrs.Has(nldev.AttrPortIndex)
	switch {
	case hasPort && !hasDevice:
		return nil, eINVAL
	case hasPort:
		d, _, err = c.devicePort()
	case hasDevice:
		d, err = c.device()
	}
	switch {
	case err != nil:
		return nil, err
	case !known || kind.perDevice != hasDevice:
		return nil, eOPNOTSUPP
	case kind.perPort != hasPort:
		return nil, eINVAL
	}
	return kind.number(d).Attributes(), nil
}
