package costs

import "github.com/nicless/nicless/model"

// A second opinion about the rules. A machine holds one line as hardware does: each cache and each memory
// has a version of the data, and each message that moves data moves a version. Its code follows the flows of
// the CXL 3.x specification (sections 3.2, 3.3 and 3.5), MESI and PCIe; it does not look at the tables.
// TestOracle lets both answer all requests in all states that sequences of requests reach.
//
// Where the specification leaves a choice, the machine makes the same one as the tables:
//
//   - The host's last-level cache is inclusive, and there is no owned state: when a modified line becomes
//     shared, its memory gets the data.
//   - When the host asks the device, its memory is read beside that, and costs no time.
//   - NC-write is WOWrInvF, NC-P is ItoMWr; RdOwn of a modified line is answered by GO-M.
//   - The device writes its own memory through, so that its cache is never newer than its memory.
//   - A host that shares a line asks for ownership without data (MemInv).
//   - Cores evict lines into the last-level cache; no other line is evicted without a request.
//   - Stores to a pool without coherence, and non-temporal stores, write whole lines.

// A party is an agent for which a request waits.
type party string

const (
	own     party = "own cache"
	pipe    party = "device"
	wire    party = "link"
	agent   party = "home agent or LLC"
	owner   party = "another core"
	ram     party = "host memory"
	answer  party = "device's answer"
	farRAM  party = "device memory"
	pool    party = "pool"
	farHost party = "other host"
)

// An outcome is what a request did.
type outcome struct {
	read   int // the version that a load returned, or -1
	msgs   []string
	waits  map[party]bool
	posted bool // the agent itself does not wait: what is waited for is that the other side sees the store
}

// A held line is a copy of the line in a cache.
type heldLine struct {
	MESI
	v int // the version
}

// A machine is one line, its memory and all caches.
type machine struct {
	fabric *Fabric
	home   Home
	bias   Bias

	newest   int // the version that the last store made
	memory   int
	core     [2]heldLine // of Host and Peer
	llc      heldLine    // exclusive here and in no core: the LLC itself owns the line
	dev      heldLine
	node     [2]heldLine // what the caches of the two hosts of a pool without coherence have
	careless careless
	register int // what the last ring of the doorbell said (PCIe)
	rung     int // the version of the last ring

	out outcome
}

// do executes a request.
func (m *machine) do(who model.Agent, req Request) outcome {
	m.out = outcome{read: -1, waits: map[party]bool{}}
	switch {
	case m.fabric == mesi:
		m.mesi(who, req)
	case m.fabric == poolPlain:
		m.plainPool(who, req)
	case who == model.Dev && m.fabric == poolCoherent:
		m.otherHost(req)
	case who == model.Dev && m.fabric == pcie:
		m.dma(req)
	case who == model.Dev && m.home == DeviceMemory:
		m.deviceOwn(req)
	case who == model.Dev:
		m.device(req)
	case m.home == DeviceMemory && (m.fabric == pcie || m.bias == DeviceBias):
		m.uncached(req)
	default:
		m.host(int(who), req)
	}
	return m.out
}

func (m *machine) send(names ...string) { m.out.msgs = append(m.out.msgs, names...) }

func (m *machine) wait(list ...party) {
	for _, p := range list {
		m.out.waits[p] = true
	}
}

// write makes a new version and returns it.
func (m *machine) write() int {
	m.newest++
	return m.newest
}

// hostState is the state of the host's caches as one party.
func (m *machine) hostState() MESI { return max(m.llc.MESI, m.core[0].MESI, m.core[1].MESI) }

// gather returns the host's version, whether memory lacks it, and whether a core has modified it.
func (m *machine) gather() (v int, dirty, inCore bool) {
	v, dirty = m.llc.v, m.llc.MESI == M
	for _, c := range m.core {
		if c.MESI >= E {
			v = c.v
		}
		if c.MESI == M {
			dirty, inCore = true, true
		}
	}
	return v, dirty, inCore
}

// writeBack gives memory a version.
func (m *machine) writeBack(v int) {
	m.memory = v
	if m.home != HostMemory {
		m.send("m2s_rwd_memwr", "s2m_ndr_cmp")
	}
}

// hostShares leaves shared copies in the host, and writes back what is modified.
func (m *machine) hostShares() {
	v, dirty, _ := m.gather()
	if dirty {
		m.writeBack(v)
	}
	m.llc = heldLine{S, v}
	for i := range m.core {
		if m.core[i].MESI != I {
			m.core[i] = heldLine{S, v}
		}
	}
}

// hostDrops takes the line from the host's caches.
func (m *machine) hostDrops() { m.llc, m.core = heldLine{}, [2]heldLine{} }

// evict moves a core's line into the LLC, which is not seen on a link.
func (m *machine) evict(c int) {
	if m.core[c].MESI >= E {
		m.llc = m.core[c]
	}
	m.core[c] = heldLine{}
}

// host is a request of a core for a line that the host may cache.
func (m *machine) host(c int, req Request) {
	mine, other := &m.core[c], &m.core[1-c]
	switch req {
	case CoreLoad, CoreKnown:
		switch {
		case mine.MESI != I:
			m.wait(own)
		case other.MESI >= E:
			m.wait(agent)
			if other.MESI == M {
				m.wait(owner)
			}
			m.hostShares()
			*mine = m.llc
		case m.llc.MESI == S:
			m.wait(agent)
			*mine = m.llc
		case m.llc.MESI >= E: // ownership moves up
			m.wait(agent)
			*mine, m.llc.MESI = m.llc, E
		default:
			*mine = m.fetch(false)
			m.llc = heldLine{min(mine.MESI, E), mine.v}
		}
		m.out.read = mine.v
	case CoreStore:
		switch {
		case mine.MESI >= E:
			m.wait(own)
		case other.MESI >= E:
			m.wait(agent)
			if other.MESI == M {
				m.wait(owner)
			}
		case m.llc.MESI >= E:
			m.wait(agent)
		case m.llc.MESI == S:
			m.takeAway()
		default:
			m.fetch(true)
		}
		m.hostDrops()
		m.llc = heldLine{E, -1} // stale: the core has the newest
		*mine = heldLine{M, m.write()}
	case CoreStoreNT:
		m.out.posted = true
		m.hostDrops()
		switch m.home {
		case HostMemory:
			m.wait(agent)
			m.snoopInv()
		case DeviceMemory:
			m.wait(agent, wire, answer)
			m.send("m2s_rwd_memwr", "s2m_ndr_cmp")
			m.dev = heldLine{}
		case PoolMemory:
			m.wait(pool)
			m.send("m2s_rwd_memwr", "s2m_ndr_cmp")
			m.backInvalidate()
		}
		m.memory = m.write()
	case CoreFlush:
		m.flush()
	case Bell: // the doorbell record stays in the host; the register is behind the link
		m.out.posted = true
		m.wait(wire)
		m.send("tlp_mwr")
		m.hostDrops()
		m.llc = heldLine{E, -1}
		*mine = heldLine{M, m.write()}
		m.register, m.rung = m.newest, m.newest
	}
}

// fetch gets a line that the host does not have, to own it or to share it if others have it.
func (m *machine) fetch(toOwn bool) heldLine {
	state := E
	switch m.home {
	case HostMemory:
		m.wait(agent)
		switch {
		case m.dev.MESI == I:
			m.wait(ram)
		case toOwn:
			m.snoopInv()
		case m.dev.MESI == S:
			m.wait(ram)
			state = S
		default:
			m.snoopData()
			state = S
		}
	case DeviceMemory:
		m.wait(agent, wire, answer, farRAM)
		m.send("m2s_req_memrd", "s2m_drs_memdata")
		if m.dev.MESI == S && !toOwn {
			m.send("s2m_ndr_cmps")
			state = S
		} else {
			m.send("s2m_ndr_cmpe")
			m.dev = heldLine{}
		}
	case PoolMemory:
		m.wait(pool)
		m.send("m2s_req_memrd", "s2m_drs_memdata")
		switch {
		case toOwn:
			m.backInvalidate()
		case m.dev.MESI >= E:
			m.wait(farHost)
			m.send("s2m_bisnp_data", "m2s_birsp_s")
			if m.dev.MESI == M {
				m.writeBack(m.dev.v)
			}
			m.dev.MESI = S
			state = S
		case m.dev.MESI == S:
			state = S
		}
		if state == S {
			m.send("s2m_ndr_cmps")
		} else {
			m.send("s2m_ndr_cmpe")
		}
	}
	return heldLine{state, m.memory}
}

// takeAway makes the host, which shares the line, its only holder.
func (m *machine) takeAway() {
	switch m.home {
	case HostMemory:
		m.wait(agent)
		m.snoopInv()
	case DeviceMemory:
		m.wait(agent, wire, answer)
		m.send("m2s_req_meminv", "s2m_ndr_cmpe")
		m.dev = heldLine{}
	case PoolMemory:
		m.wait(pool)
		m.send("m2s_req_meminv", "s2m_ndr_cmpe")
		m.backInvalidate()
	}
}

// snoopInv takes a line of host memory from the device's cache, and snoopData makes it shared. A device that
// has modified it sends the data.
func (m *machine) snoopInv() {
	if m.dev.MESI == I {
		return
	}
	m.wait(wire, answer)
	m.send("h2d_req_snpinv")
	if m.dev.MESI == M {
		m.send("d2h_rsp_rspifwdm", "cachedata_d2h_data")
		m.memory = m.dev.v
	} else {
		m.send("d2h_rsp_rspihitse")
	}
	m.dev = heldLine{}
}

func (m *machine) snoopData() {
	m.wait(wire, answer)
	m.send("h2d_req_snpdata")
	if m.dev.MESI == M {
		m.send("d2h_rsp_rspsfwdm", "cachedata_d2h_data")
		m.memory = m.dev.v
	} else {
		m.send("d2h_rsp_rspshitse")
	}
	m.dev.MESI = S
}

// backInvalidate takes a line of a pool from the other host, which first writes back what it has modified: a
// BIRsp carries no data.
func (m *machine) backInvalidate() {
	if m.dev.MESI == I {
		return
	}
	m.wait(farHost)
	m.send("s2m_bisnp_inv", "m2s_birsp_i")
	if m.dev.MESI == M {
		m.writeBack(m.dev.v)
	}
	m.dev = heldLine{}
}

// flush is CLFLUSH by a core: no copy stays in the host's caches, nor of host memory in the device's.
func (m *machine) flush() {
	v, dirty, _ := m.gather()
	had := m.hostState() != I
	m.hostDrops()
	switch {
	case m.home == HostMemory && m.dev.MESI != I:
		m.wait(agent)
		m.snoopInv()
	case dirty:
		switch m.home {
		case HostMemory:
			m.wait(agent, ram)
		case DeviceMemory:
			m.wait(agent, wire, answer)
		case PoolMemory:
			m.wait(pool)
		}
		m.writeBack(v)
	case had:
		m.wait(agent)
	default:
		m.wait(own)
	}
}
