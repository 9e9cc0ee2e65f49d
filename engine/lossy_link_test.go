package engine

import (
	"fmt"
	"testing"

	"github.com/nicless/nicless/internal/explore"
	"github.com/nicless/nicless/internal/nic"
)

// The same as TestOverABadLink and TestFaultsOverABadLink, with ends that agree on reports.
func TestOverALossyLink(t *testing.T) {
	for seed := range uint64(explore.Rounds(1, 4)) {
		f := &fates{seed: seed, lose: 0.05, repeat: 0.05, reorder: 0.05}
		overCable = func(r *rig) *cable {
			return r.newCable(nic.PortConfig{MTU: 256, Window: 8 << 10, Loses: true}, f)
		}
		defer func() { overCable = nil }()
		for name, test := range testsOverLinks {
			if name == "UnreliableConnection" || name == "InlineMessages" {
				continue // messages of unreliable connections are lost
			}
			t.Run(fmt.Sprintf("%s, seed %d", name, seed), test)
		}
	}
}

func TestFaultsOverALossyLink(t *testing.T) {
	for seed := range uint64(explore.Rounds(1, 3)) {
		f := &fates{seed: seed, lose: 0.08, repeat: 0.08, reorder: 0.08, stall: 0.3}
		overCable = func(r *rig) *cable {
			c := r.newCable(nic.PortConfig{MTU: 256, Jumbo: true, Window: 4 << 10, Loses: true}, f)
			c.limit = 12
			return c
		}
		defer func() { overCable = nil }()
		for _, f := range mistakes() {
			if f.name == "peer connected to another" {
				continue // see TestFaultsOverALink
			}
			t.Run(fmt.Sprintf("%s, seed %d", f.name, seed), func(t *testing.T) { f.run(newScene(t, Config{})) })
		}
	}
}
