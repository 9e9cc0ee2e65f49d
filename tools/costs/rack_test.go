package costs

import (
	"strings"
	"testing"

	"github.com/nicless/nicless/model/rack"
	"github.com/stretchr/testify/require"
)

func rackLoad(nodes, devices int, rate float64) RackLoad {
	return RackLoad{Rack: rack.New(nodes, min(16, nodes-1)), Devices: devices, Rate: rate,
		Traffic: rack.Traffic{Head: 28, Payload: 1024, Batch: 1}}
}

func stageOf(t *testing.T, r *RackReport, name string) Stage {
	for _, s := range r.Stages {
		if s.Name == name {
			return s
		}
	}
	t.Fatalf("no stage %s", name)
	return Stage{}
}

// The figures of an idle rack by hand: 1,023 first lines and 16 rings each 100 ms, and naps of 2 ms.
func TestRackByHand(t *testing.T) {
	p, err := Builtin("pool-750")
	require.NoError(t, err)
	r, err := PriceRack(p, rackLoad(1024, 16, 0))
	require.NoError(t, err)
	s := stageOf(t, r, Idle)
	const lines = 10*(1+1+1023+2*16) + 10 + 16*2*(1+1+64/16) + 2*(3+1) + 16*500
	require.InDelta(t, lines, s.Lines.All(), 1e-6)
	require.InDelta(t, 1024*lines*64/1e9, s.GBs, 1e-9)
	require.InDelta(t, 1024*lines*2/16/1e9, s.Pool, 1e-9)
	require.InDelta(t, lines*1.9/1e9, s.Link, 1e-9)
	require.InDelta(t, 750, s.Load.NS, 1)
	require.InDelta(t, (lines-10)*750e-9+10*525e-9, s.Core, 1e-5)
}

// Engines that poll load one line after another; however many there are, devices are not more than full, and
// more devices or fewer nodes make no load slower.
func TestRackPolls(t *testing.T) {
	p, err := Builtin("pool-250")
	require.NoError(t, err)
	last := 0.0
	for _, nodes := range []int{2, 16, 64, 256, 1024} {
		load := rackLoad(nodes, 1, 0)
		r, err := PriceRack(p, load)
		require.NoError(t, err)
		s := stageOf(t, r, Polling)
		require.Less(t, s.Pool, 1.0, "%d nodes", nodes)
		require.GreaterOrEqual(t, s.Load.NS, last, "%d nodes", nodes)
		require.LessOrEqual(t, s.Load.Low, s.Load.NS)
		require.LessOrEqual(t, s.Load.NS, s.Load.High)
		asleep := rack.Sum(load.Rack.Second(rack.State{}))
		require.InDelta(t, 1, (s.Lines.Read-asleep.Read)*s.Load.NS/1e9, 0.001, "%d nodes: a core that only loads", nodes)
		more, err := PriceRack(p, rackLoad(nodes, 16, 0))
		require.NoError(t, err)
		require.LessOrEqual(t, stageOf(t, more, Polling).Load.NS, s.Load.NS)
		last = s.Load.NS
	}
	require.Greater(t, last, 2000.0, "1,024 nodes poll one device of 500 million lines a second")
}

// The most packets that a report names fill what it names, and no more are carried.
func TestRackMost(t *testing.T) {
	for _, preset := range []string{"pool-250", "pool-750"} {
		p, err := Builtin(preset)
		require.NoError(t, err)
		r, err := PriceRack(p, rackLoad(1024, 4, 0))
		require.NoError(t, err)
		require.Equal(t, "the devices", r.Limit)
		full, err := PriceRack(p, rackLoad(1024, 4, r.Most*0.99))
		require.NoError(t, err)
		s := stageOf(t, full, Packets)
		require.InDelta(t, 0.99, s.Pool, 0.01)
		require.Greater(t, s.Load.NS, stageOf(t, r, Packets).Load.NS)
		over, err := PriceRack(p, rackLoad(1024, 4, r.Most*1.02))
		require.NoError(t, err)
		require.Zero(t, stageOf(t, over, Packets).Load.NS)
		few, err := PriceRack(p, rackLoad(2, 1, 0))
		require.NoError(t, err)
		require.NotEqual(t, "the devices", few.Limit)
	}
}

func TestRackRefuses(t *testing.T) {
	p, err := Builtin("pool-250")
	require.NoError(t, err)
	for want, change := range map[string]func(*RackLoad){
		"1025 nodes; 2 to 1024 are possible":              func(l *RackLoad) { l.Rack.Nodes = 1025 },
		"talks with 1024 others; 0 to 1023":               func(l *RackLoad) { l.Rack.Talks = 1024 },
		"0 devices":                                       func(l *RackLoad) { l.Devices = 0 },
		"rings of 96 slots":                               func(l *RackLoad) { l.Rack.Slots = 96 },
		"payload of 65536 bytes; 0 to 24576 are possible": func(l *RackLoad) { l.Traffic.Payload = 65536 },
		"-1 packets a second":                             func(l *RackLoad) { l.Rate = -1 },
		"0.5 packets at a look":                           func(l *RackLoad) { l.Traffic.Batch = 0.5 },
	} {
		l := rackLoad(1024, 1, 0)
		change(&l)
		_, err := PriceRack(p, l)
		require.ErrorContains(t, err, want)
	}
	for _, name := range Names() {
		p, err := Builtin(name)
		require.NoError(t, err)
		_, err = PriceRack(p, rackLoad(1024, 1, 0))
		if strings.HasSuffix(name, "0") {
			require.NoError(t, err)
		} else {
			require.ErrorContains(t, err, "a rack shares a pool without coherence", name)
		}
	}
	table, err := CompareRacks([]*Preset{p}, RackLoad{Rack: rack.New(2, 0), Devices: 1, Traffic: rack.Traffic{Batch: 1}})
	require.NoError(t, err)
	var text strings.Builder
	require.NoError(t, table.Table(&text))
	require.NotContains(t, text.String(), "polling")
}
