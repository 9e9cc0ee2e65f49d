//go:build linux && (amd64 || arm64)

package links

import (
	"slices"

	"github.com/nicless/nicless/fabric"
	"github.com/nicless/nicless/fabric/pool"
	"github.com/nicless/nicless/fabric/ucx"
	"github.com/nicless/nicless/verbs"
)

// A ported link leads to InfiniBand ports.
type ported interface {
	// Ports returns those of the engines to which there is a path.
	Ports() []fabric.Port
}

var (
	_ ported = (*pool.Pool)(nil)
	_ ported = (*ucx.Carrier)(nil)
)

// Ports returns the InfiniBand ports of the engines in pools and behind UCX, those that work first. RoCE
// leads to none: its packets have no LIDs.
func (t *Table) Ports() (list []verbs.LinkedPort) {
	for _, l := range t.current.Load().links {
		all, ok := l.(ported)
		if !ok {
			continue
		}
		for _, p := range all.Ports() {
			to := verbs.RemotePort{GID: p.GID, LID: p.LID}
			list = append(list, verbs.LinkedPort{RemotePort: to, Engine: p.Engine, Name: p.Name, Up: p.Up})
		}
	}
	slices.SortStableFunc(list, func(a, b verbs.LinkedPort) int {
		switch {
		case a.Up == b.Up:
			return 0
		case a.Up:
			return -1
		}
		return 1
	})
	return list
}
