package engine

import (
	"testing"

	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/internal/packetring"
	"github.com/nicless/nicless/internal/shm"
	"github.com/nicless/nicless/wqe"
	"github.com/stretchr/testify/require"
)

// idlePorts gives the engine ports from which nothing comes.
func (r *rig) idlePorts(n int) {
	for range n {
		var rings [2]*shm.Region
		for i := range rings {
			var err error
			rings[i], err = shm.Heap(poolRings.Size())
			require.NoError(r, err)
		}
		send, err := packetring.NewProducer(rings[0].Bytes(), poolRings, nil)
		require.NoError(r, err)
		receive, err := packetring.NewConsumer(rings[1].Bytes(), poolRings, nil)
		require.NoError(r, err)
		p, err := r.d.nic().AddPort(nic.PortConfig{Name: "idle", Send: send, Receive: receive, MTU: poolMTU, Jumbo: true})
		require.NoError(r, err)
		p.SetUp(true)
		r.Cleanup(func() { _ = p.Close() })
	}
}

// BenchmarkIdlePorts measures what links without traffic cost an engine: in steps without work, and
// in steps with one local WRITE and with 16.
func BenchmarkIdlePorts(b *testing.B) {
	for _, row := range []struct {
		name  string
		wqes  int
		ports int
	}{{"idle, no port", 0, 0}, {"idle, 2 ports", 0, 2}, {"1 WRITE, no port", 1, 0}, {"1 WRITE, 2 ports", 1, 2}, {"16 WRITEs, no port", 16, 0}, {"16 WRITEs, 2 ports", 16, 2}} {
		b.Run(row.name, func(b *testing.B) {
			r, p, q := duo(b, Config{})
			r.idlePorts(row.ports)
			f := flowOf(p, ctrl(wqe.OpRDMAWrite), q.h.full(64, 2).raddr(0), p.h.full(64, 1).data(0, 8))
			for b.Loop() {
				if row.wqes > 0 {
					f.post(row.wqes)
				}
				r.e.Step()
				f.poll()
			}
		})
	}
}

// BenchmarkWireAlone is BenchmarkWireSteps for WRITEs of 8 bytes that are announced one by one.
func BenchmarkWireAlone(b *testing.B) {
	p, q := engines(b, poolRings, poolMTU)
	f := wireRows[0].flow(p, q)
	for b.Loop() {
		f.post(1)
		for f.done < f.posted {
			p.h.rig.e.Step()
			q.h.rig.e.Step()
			f.poll()
		}
	}
}

// BenchmarkIdleWire measures a step without work of an engine with one connection over a link.
func BenchmarkIdleWire(b *testing.B) {
	p, _ := engines(b, poolRings, poolMTU)
	for b.Loop() {
		p.h.rig.e.Step()
	}
}
