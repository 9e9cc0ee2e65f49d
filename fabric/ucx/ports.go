//go:build linux && (amd64 || arm64)

package ucx

import "github.com/nicless/nicless/fabric"

// Ports returns the InfiniBand ports of the engines to which there is a path.
func (c *Carrier) Ports() (list []fabric.Port) {
	for _, s := range c.state.Load().peers {
		for _, a := range s.addresses {
			if a.LID != 0 && s.path.Port != nil {
				port := fabric.Port{Engine: s.GUID, Name: s.Name, Up: s.Up, GID: a.GID, LID: a.LID}
				list = append(list, port)
			}
		}
	}
	return list
}
