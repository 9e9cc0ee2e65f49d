package engine

import (
	"context"
	"encoding/binary"
	"math"
	"net"
	"strconv"
	"sync"
	"testing"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/engine/internal/transport"
	"github.com/nicless/nicless/fabric/ucx"
	"github.com/nicless/nicless/fabric/ucx/ucxtest"
	"github.com/nicless/nicless/internal/freeport"
	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/wqe"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// ucxOver is a configuration with which UCX uses one transport on this host.
func ucxOver(transports string) ucx.Config {
	return ucx.Config{Dead: neverDead, Env: []string{"UCX_TLS=" + transports + ",self", "UCX_NET_DEVICES=lo"}}
}

// newUCX joins two new ports of the rig's engine by two carriers with a configuration.
func (r *rig) newUCX(ends *[2]*ucx.Carrier, common ucx.Config) *cable {
	r.Helper()
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(freeport.TCP(r)))
	c := &cable{}
	var ports [2]nic.PortConfig
	var opened sync.WaitGroup
	for i := range ends {
		opened.Go(func() {
			cfg := common
			if cfg.Program == "" {
				cfg.Program = ucxtest.Program(r)
			}
			if i == 0 {
				cfg.Listen = address
			} else {
				cfg.Connect = []string{address}
			}
			dev := &portKeeper{poolNode: poolNode{r.d.nic(), uint64(i + 1)}, cfg: &ports[i]}
			var err error
			ends[i], err = ucx.Open(context.Background(), dev, cfg)
			if err != nil {
				r.Error(err)
			}
		})
	}
	opened.Wait()
	require.False(r, r.Failed())
	for i, carrier := range ends {
		r.Cleanup(func() { require.NoError(r, carrier.Close()) })
		r.until("the link is up", func() bool {
			r.step()
			peers := carrier.Peers()
			return len(peers) == 1 && peers[0].Up
		})
		path, ok := carrier.Route(nic.Address{GUID: uint64(2 - i)})
		require.True(r, ok)
		c.ports[i], c.paths[i] = path.Port.(*transport.PortHandle), path
	}
	seen := uint64(0)
	c.await = func() (n int) {
		arrived := uint64(0)
		r.until("all packets have arrived", func() bool {
			sent := ports[0].Send.Sent() + ports[1].Send.Sent()
			arrived = ports[0].Receive.Received() + ports[1].Receive.Received()
			if arrived == sent || ports[0].Receive.Ready() || ports[1].Receive.Ready() {
				return true
			}
			for i := range ports {
				ports[i].Wake()
			}
			return false
		})
		n = int(arrived - seen)
		seen = arrived
		return n
	}
	r.cable = c
	return c
}

// A portKeeper keeps the configuration of the port that it gives.
type portKeeper struct {
	poolNode
	cfg *nic.PortConfig
}

func (k *portKeeper) AddPort(cfg nic.PortConfig) (nic.Port, error) {
	*k.cfg = cfg
	return k.poolNode.AddPort(cfg)
}

// The operations over UCX: from one port of the engine to another by two processes.
func TestOverUCX(t *testing.T) {
	ucxtest.NeedUCX(t)
	var ends [2]*ucx.Carrier
	overCable = func(r *rig) *cable { return r.newUCX(&ends, ucxOver("tcp")) }
	defer func() { overCable = nil }()
	for name, test := range overCarriers() {
		t.Run(name, test)
	}
}

// The processes of a link are killed while queue pairs use it. No WQE is lost, and each atomic is
// executed once.
func TestUCXProcessesAreKilled(t *testing.T) {
	ucxtest.NeedUCX(t)
	var ends [2]*ucx.Carrier
	cfg := ucxOver("tcp")
	cfg.Dead = 0
	overCable = func(r *rig) *cable { return r.newUCX(&ends, cfg) }
	defer func() { overCable = nil }()
	r, p, q := duo(t, Config{})
	r.survive(p, q, 4, func(int) {}, func(n int) {
		pid, why := ends[n%2].Process()
		require.NotZero(t, pid, why)
		require.NoError(t, unix.Kill(pid, unix.SIGKILL))
	})
}

// survive runs the engine and posts WRITEs and atomics from p to q, while harm is done to their link so
// many times: before some work requests are posted, and behind them. Each time the queue pairs go on
// where they were: no WQE is lost, and each atomic is executed once. It returns a WRITE.
func (r *rig) survive(p, q *end, harms int, before, behind func(n int)) (write func()) {
	r.Helper()
	// Each timer takes 537 ms, and the retries together two minutes. The 7 that a client can ask for are 4 s,
	// in which processes that are short of cores have not always come back.
	p.q.Attr.Timeout, p.q.Attr.RetryCount = 17, math.MaxUint8
	const size, between = 100000, 20
	src, dst := p.h.full(size, 1), q.h.full(size, 2)
	counter, old := q.h.full(8, 0), p.h.full(8, 3)
	clear(counter.mem)
	write = func() { p.post(ctrl(wqe.OpRDMAWrite), dst.raddr(0), src.data(0, size)) }
	r.start()
	total := uint64(0)
	for n := range harms {
		for i := range between {
			copy(src.mem, pattern(size, byte(i+n)))
			if i == between/2 {
				before(n)
			}
			write()
			p.post(ctrl(wqe.OpAtomicFA), counter.raddr(0), wqe.Atomic{SwapAdd: 1}, old.data(0, 8))
			if i == between/2 {
				behind(n)
			}
			for range 2 {
				require.Equal(r, cqe.StatusSuccess, p.scq.await().Status)
			}
			require.Equal(r, total, binary.NativeEndian.Uint64(old.mem))
			total++
			r.same(src.mem, dst.mem, "written")
		}
	}
	require.Equal(r, total, binary.NativeEndian.Uint64(counter.mem))
	return write
}
