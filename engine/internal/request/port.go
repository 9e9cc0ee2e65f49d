//go:build linux && (amd64 || arm64)

package request

import (
	"fmt"
	"slices"

	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/engine/internal/transport"
	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/internal/packetring"
)

// AddPort gives the device a port.
func (d Device) AddPort(cfg nic.PortConfig) (nic.Port, error) {
	if cfg.MTU < 256 || cfg.MTU > packetring.MaxPayload-object.GRHSize || cfg.MTU%4 != 0 {
		return nil, fmt.Errorf("%w: %d; a multiple of 4 from 256 to %d is needed", transport.ErrPortMTU, cfg.MTU, packetring.MaxPayload-object.GRHSize)
	}
	if longest := cfg.Send.Longest(); cfg.MTU+object.GRHSize > longest {
		return nil, fmt.Errorf("%w: %d; the ring takes payloads of %d bytes at any time, and a GRH has %d", transport.ErrPortMTU, cfg.MTU, longest, object.GRHSize)
	}
	p := transport.NewPort(cfg, d.Shards[0])
	if cfg.Management != nil {
		go transport.Manage(p)
	}
	d.Do(func() {
		d.LastPort++
		p.Number = d.LastPort
		p.Shard.Ports = append(p.Shard.Ports, p)
		p.ACKs = slices.Grow(p.ACKs, transport.PortBatch)
		p.Shard.PortChanges++
	})
	return &transport.PortHandle{Port: p, Server: &d.Loops[0].PortServer}, nil
}

// SetRouter sets the router, which finds paths to other devices, and drops the paths found before.
func (d Device) SetRouter(r nic.Router) {
	d.Do(func() {
		d.Router = r
		d.Routes++
	})
}

// SetPath sets the path to the peer that a queue pair gets in its next transition to RTR.
func (c *Client) SetPath(qpn uint32, to nic.Path) (err error) {
	c.Mu.Lock()
	defer c.Mu.Unlock()
	if c.Closed {
		return object.ErrClosed
	}
	c.Device.Do(func() {
		if q := c.QPs[qpn]; q != nil {
			q.Conn.Path = &to
		} else {
			err = object.NotFound("QP", qpn)
		}
	})
	return err
}
