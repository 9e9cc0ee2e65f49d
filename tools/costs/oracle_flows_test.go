package costs

import "github.com/nicless/nicless/model"

// device is a request of a CXL device for a line of host memory (CXL.cache).
func (m *machine) device(req Request) {
	v, dirty, inCore := m.gather()
	ask := func(names ...string) {
		m.wait(pipe, wire, agent)
		m.send(names...)
	}
	// data is what the host sends: from where the newest version is.
	data := func() int {
		switch {
		case m.hostState() == I:
			m.wait(ram)
			return m.memory
		case inCore:
			m.wait(owner)
		}
		return v
	}
	switch req {
	case NCRead, CSRead, CORead:
		switch {
		case m.dev.MESI >= E, m.dev.MESI == S && req != CORead:
			m.wait(pipe)
			m.out.read = m.dev.v
		case m.dev.MESI == S: // it has the data, and lacks ownership
			ask("d2h_req_rdownnodata", "h2d_rsp_go")
			m.hostDrops()
			m.dev.MESI = E
			m.out.read = m.dev.v
		case req == NCRead:
			ask("d2h_req_rdcurr", "cachedata_h2d_data")
			m.out.read = data()
		case req == CSRead:
			ask("d2h_req_rdshared", "h2d_rsp_go", "cachedata_h2d_data")
			m.dev = heldLine{S, data()}
			m.out.read = m.dev.v
			if m.hostState() != I {
				m.hostShares()
			}
		default:
			ask("d2h_req_rdown", "h2d_rsp_go", "cachedata_h2d_data")
			m.dev = heldLine{E, data()}
			m.out.read = m.dev.v
			if dirty {
				m.dev.MESI = M // memory does not have it
			}
			m.hostDrops()
		}
	case NCWrite:
		ask("d2h_req_wowrinvf", "h2d_rsp_fastgowritepull", "cachedata_d2h_data", "h2d_rsp_extcmp")
		m.hostDrops()
		m.dev = heldLine{}
		m.memory = m.write()
	case NCPush:
		ask("d2h_req_itomwr", "h2d_rsp_gowritepull", "cachedata_d2h_data")
		m.hostDrops()
		m.dev = heldLine{}
		m.llc = heldLine{M, m.write()}
	case COWrite:
		if m.dev.MESI >= E {
			m.wait(pipe)
		} else {
			ask("d2h_req_rdownnodata", "h2d_rsp_go")
			m.hostDrops()
		}
		m.dev = heldLine{M, m.write()}
	case DevFlush:
		switch m.dev.MESI {
		case S, E:
			ask("d2h_req_cleanevictnodata", "h2d_rsp_go")
		case M:
			ask("d2h_req_dirtyevict", "h2d_rsp_gowritepull", "cachedata_d2h_data")
			m.memory = m.dev.v
		}
		m.dev = heldLine{}
	}
}

// deviceOwn is a request of a CXL device for a line of its own memory (HDM-D). In host bias it asks the host,
// whose answer comes on CXL.mem.
func (m *machine) deviceOwn(req Request) {
	v, dirty, inCore := m.gather()
	switch req {
	case NCRead, CSRead, CORead:
		opcode := map[Request]string{NCRead: "d2h_req_rdcurr", CSRead: "d2h_req_rdshared", CORead: "d2h_req_rdown"}[req]
		hit := m.dev.MESI != I
		m.wait(pipe)
		if hit && req == CORead {
			opcode = "d2h_req_rdownnodata"
		}
		// A copy that the device keeps is shared. So only CO-read, whose purpose is that the host has none,
		// has to ask if the host has one.
		if m.bias == HostBias && (!hit || req == CORead && m.hostState() != I) {
			m.wait(wire, agent)
			m.send(opcode)
			if inCore {
				m.wait(owner)
			}
			if dirty {
				m.writeBack(v)
			}
			if req == CORead {
				m.hostDrops()
			} else if m.hostState() != I {
				m.llc.MESI = min(m.llc.MESI, E) // written back
				for i := range m.core {
					m.core[i].MESI = min(m.core[i].MESI, E)
				}
				m.hostShares()
			}
			m.send("m2s_req_memrdfwd")
		}
		if !hit {
			m.wait(farRAM)
			m.out.read = m.memory
			if req != NCRead {
				m.dev = heldLine{S, m.memory}
			}
		} else {
			m.out.read = m.dev.v
		}
	case NCPush:
		m.dev = heldLine{}
		m.wait(pipe)
		if m.bias == DeviceBias {
			m.memory = m.write()
			return
		}
		m.wait(wire, agent)
		m.send("d2h_req_itomwr", "h2d_rsp_gowritepull", "cachedata_d2h_data")
		m.hostDrops()
		m.llc = heldLine{M, m.write()}
	case NCWrite, COWrite:
		m.wait(pipe)
		if m.bias == HostBias {
			m.wait(wire, agent)
			m.send("d2h_req_wowrinvf", "m2s_req_memwrfwd")
			m.hostDrops()
		}
		m.dev = heldLine{}
		m.memory = m.write()
	case DevFlush:
		m.dev = heldLine{}
	}
}

// uncached is a request of a core for device memory that the host does not cache: device bias, or a BAR.
func (m *machine) uncached(req Request) {
	load, store := []string{"m2s_req_memrd", "s2m_drs_memdata"}, []string{"m2s_rwd_memwr", "s2m_ndr_cmp"}
	reads, writes := []party{agent, wire, answer, farRAM}, []party{agent, wire, answer}
	if m.fabric == pcie {
		load, store = []string{"tlp_mrd", "tlp_cpld"}, []string{"tlp_mwr"}
		reads, writes = []party{wire}, []party{wire}
	}
	switch req {
	case CoreLoad, CoreKnown:
		m.wait(reads...)
		m.send(load...)
		m.out.read = m.memory
	case CoreFlush:
		m.wait(own)
	default:
		m.out.posted = true
		m.wait(writes...)
		m.send(store...)
		m.dev = heldLine{}
		m.memory = m.write()
		if req == Bell {
			m.register, m.rung = m.newest, m.newest
		}
	}
}

// dma is a request of a PCIe device.
func (m *machine) dma(req Request) {
	local := m.home == DeviceMemory
	if req == DevFlush {
		return // it has no cache
	}
	if req != Bell && local {
		m.wait(pipe)
	} else if req != Bell {
		m.wait(wire)
	}
	switch {
	case req == Bell: // the device reads its own register
	case req == DMARead && local:
		m.out.read = m.memory
	case req == DMAWrite && local:
		m.memory = m.write()
	case req == DMARead: // snoops the host's caches, changes nothing
		m.send("tlp_mrd", "tlp_cpld")
		m.out.read = m.memory
		if m.hostState() != I {
			m.out.read, _, _ = m.gather()
		}
	case req == DMAWrite: // DDIO: into the LLC
		m.send("tlp_mwr")
		m.hostDrops()
		m.llc = heldLine{M, m.write()}
	}
}

// A careless program leaves out what a pool without coherence demands of it.
type careless struct {
	flush bool // it does not flush what it has stored
	drop  bool // it loads what its cache has
}

// plainPool is a request to a pool without coherence. A load drops the copy first and fetches the line; a
// store is flushed. Lines left in the caches are clean and not used again, so the tables do not have them.
func (m *machine) plainPool(who model.Agent, req Request) {
	cache := &m.node[0]
	if who == model.Dev {
		cache = &m.node[1]
	}
	switch req {
	case CoreLoad, CoreKnown:
		m.wait(pool)
		m.send("m2s_req_memrd", "s2m_drs_memdata")
		if !m.careless.drop && cache.MESI != M || cache.MESI == I {
			*cache = heldLine{S, m.memory}
		}
		m.out.read = cache.v
	case CoreStore, CoreStoreNT:
		m.out.posted = true
		m.wait(pool)
		m.send("m2s_rwd_memwr", "s2m_ndr_cmp")
		*cache = heldLine{M, m.write()}
		if !m.careless.flush || req == CoreStoreNT {
			m.memory = cache.v
			*cache = heldLine{}
		}
	case CoreFlush:
		m.wait(own)
	}
}

// otherHost is a request of the engine's core on the other host of a coherent pool.
func (m *machine) otherHost(req Request) {
	// invalidate takes the line from the first host.
	invalidate := func() {
		if m.hostState() == I {
			return
		}
		m.wait(farHost)
		m.send("s2m_bisnp_inv", "m2s_birsp_i")
		if v, dirty, _ := m.gather(); dirty {
			m.writeBack(v)
		}
		m.hostDrops()
	}
	switch req {
	case CoreLoad, CoreKnown:
		if m.dev.MESI != I {
			m.wait(own)
			m.out.read = m.dev.v
			return
		}
		m.wait(pool)
		m.send("m2s_req_memrd", "s2m_drs_memdata")
		if m.hostState() >= E {
			m.wait(farHost)
			m.send("s2m_bisnp_data", "m2s_birsp_s")
			m.hostShares()
		}
		if m.hostState() == S {
			m.send("s2m_ndr_cmps")
			m.dev = heldLine{S, m.memory}
		} else {
			m.send("s2m_ndr_cmpe")
			m.dev = heldLine{E, m.memory}
		}
		m.out.read = m.dev.v
	case CoreStore:
		switch m.dev.MESI {
		case E, M:
			m.wait(own)
		case S:
			m.wait(pool)
			m.send("m2s_req_meminv", "s2m_ndr_cmpe")
			invalidate()
		case I:
			m.wait(pool)
			m.send("m2s_req_memrd", "s2m_ndr_cmpe", "s2m_drs_memdata")
			invalidate()
		}
		m.dev = heldLine{M, m.write()}
	case CoreStoreNT:
		m.out.posted = true
		m.wait(pool)
		m.send("m2s_rwd_memwr", "s2m_ndr_cmp")
		m.dev = heldLine{}
		invalidate()
		m.memory = m.write()
	case CoreFlush:
		switch m.dev.MESI {
		case I:
			m.wait(own)
		case S, E:
			m.wait(agent)
		case M:
			m.wait(pool)
			m.writeBack(m.dev.v)
		}
		m.dev = heldLine{}
	}
}

// mesi is a request of one of three cores of one host.
func (m *machine) mesi(who model.Agent, req Request) {
	cores := [...]*heldLine{&m.core[0], &m.core[1], &m.dev}
	mine := cores[who]
	var holder *heldLine // another core that has the line, an exclusive one if there is one
	for _, c := range cores {
		if c != mine && c.MESI != I && (holder == nil || c.MESI >= E) {
			holder = c
		}
	}
	drop := func() {
		for _, c := range cores {
			*c = heldLine{}
		}
		m.llc = heldLine{}
	}
	switch req {
	case CoreLoad, CoreKnown:
		switch {
		case mine.MESI != I:
			m.wait(own)
		case holder != nil && holder.MESI >= E:
			m.wait(owner)
			m.memory = holder.v
			holder.MESI = S
			*mine = *holder
		case holder != nil:
			m.wait(agent)
			*mine = *holder
		default:
			m.wait(ram)
			*mine = heldLine{E, m.memory}
		}
		m.out.read = mine.v
	case CoreStore:
		switch {
		case mine.MESI >= E:
			m.wait(own)
		case holder != nil: // an upgrade or a miss: the others have to drop it
			m.wait(owner)
		case mine.MESI == S:
			m.wait(agent)
		default:
			m.wait(ram)
		}
		drop()
		*mine = heldLine{M, m.write()}
	case CoreStoreNT:
		m.out.posted = true
		m.wait(ram)
		drop()
		m.memory = m.write()
	case CoreFlush:
		m.wait(ram)
		for _, c := range cores {
			if c.MESI == M {
				m.memory = c.v
			}
		}
		drop()
	}
}
