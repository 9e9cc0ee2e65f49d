package links

import (
	"testing"

	"github.com/nicless/nicless/fabric"
	"github.com/nicless/nicless/verbs"
	"github.com/stretchr/testify/require"
)

// A portedLink leads to InfiniBand ports.
type portedLink struct {
	*testLink
	ports []fabric.Port
}

func (l *portedLink) Ports() []fabric.Port { return l.ports }

// The ports of all links are listed, those that work first.
func TestPorts(t *testing.T) {
	table, _ := open(t, Options{}, &testLink{name: "without ports"})
	require.Empty(t, table.Ports())
	port := func(lid uint16, up bool) fabric.Port {
		return fabric.Port{Engine: 5, Name: "e", Up: up, GID: [16]byte{15: byte(lid)}, LID: lid}
	}
	table.add(&portedLink{&testLink{}, []fabric.Port{port(2, false), port(3, true)}})
	table.add(&portedLink{&testLink{}, []fabric.Port{port(4, true), port(5, false)}})
	var lids []uint16
	for _, p := range table.Ports() {
		lids = append(lids, p.LID)
	}
	require.Equal(t, []uint16{3, 4, 2, 5}, lids)
	first := verbs.LinkedPort{RemotePort: verbs.RemotePort{GID: [16]byte{15: 3}, LID: 3}, Engine: 5, Name: "e", Up: true}
	require.Equal(t, first, table.Ports()[0])
}
