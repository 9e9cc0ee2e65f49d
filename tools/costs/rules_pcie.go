package costs

// pcie is a device behind PCIe. It reads and writes host memory by DMA, which the host's caches answer
// coherently; writes go into the last-level cache (DDIO). It cannot poll a record at a price that a user
// would pay, so the host rings: a write to a register. Its own memory is behind a BAR, which the host does
// not cache.
var pcie = &Fabric{
	Name:   "pcie",
	Homes:  []Home{HostMemory, DeviceMemory},
	Reads:  []Request{DMARead},
	Writes: []Request{DMAWrite},
	Bells:  true,
	Rules: joinRules(pcieLoads(CoreLoad), pcieLoads(CoreKnown), []Rule{
		{Req: DMARead, Who: device, Host: anyMESI, At: anyPlace, Dev: isI, Msgs: msgs("tlp_mrd", "tlp_cpld"), Path: prices("dma_read")},
		{Req: DMAWrite, Who: device, Host: anyMESI, At: anyPlace, Dev: isI, Msgs: msgs("tlp_mwr"), Path: prices("dma_write"), NextHost: isM, NextCores: none, Order: Posted},
		{Req: DevFlush, Who: device, Host: anyMESI, At: anyPlace, Dev: isI}, // it has no cache
		{Req: Bell, Who: device, Host: anyMESI, At: anyPlace, Dev: isI},
		{Req: Bell, Who: cores, Host: anyMESI, At: anyPlace, Dev: isI, Msgs: msgs("tlp_mwr"), Shown: prices("doorbell"), NextHost: isM, NextCores: only},

		{Req: CoreStore, Who: cores, Host: isEM, At: mine, Dev: isI, Path: prices("hit"), NextHost: isM},
		{Req: CoreStore, Who: cores, Host: isE, At: lone, Dev: isI, Path: prices("agent"), NextHost: isM, NextCores: only},
		{Req: CoreStore, Who: cores, Host: isM, At: llc, Dev: isI, Path: prices("agent"), NextCores: only},
		{Req: CoreStore, Who: cores, Host: isM, At: theirs, Dev: isI, Path: prices("agent", "forward"), NextCores: only},
		{Req: CoreStore, Who: cores, Host: isS, At: anyPlace, Dev: isI, Path: prices("agent"), NextHost: isM, NextCores: only},
		{Req: CoreStore, Who: cores, Host: isI, Dev: isI, Path: prices("agent", "dram"), NextHost: isM, NextCores: only},
		{Req: CoreStoreNT, Who: cores, Host: anyMESI, At: anyPlace, Dev: isI, Shown: prices("agent"), NextHost: isI, NextCores: none},
		{Req: CoreFlush, Who: cores, Host: isI, Dev: isI, Path: prices("hit")},
		{Req: CoreFlush, Who: cores, Host: isSE, At: anyPlace, Dev: isI, Path: prices("agent"), NextHost: isI, NextCores: none},
		{Req: CoreFlush, Who: cores, Host: isM, At: anyPlace, Dev: isI, Path: prices("agent", "dram"), NextHost: isI, NextCores: none},

		{Req: DMARead, Who: device, Home: DeviceMemory, Host: isI, Dev: isI, Path: prices("device")},
		{Req: DMAWrite, Who: device, Home: DeviceMemory, Host: isI, Dev: isI, Path: prices("device"), Order: Posted},
		{Req: DevFlush, Who: device, Home: DeviceMemory, Host: isI, Dev: isI},
		{Req: Bell, Who: device, Home: DeviceMemory, Host: isI, Dev: isI},
		{Req: Bell, Who: cores, Home: DeviceMemory, Host: isI, Dev: isI, Msgs: msgs("tlp_mwr"), Shown: prices("doorbell")},
		{Req: CoreStore, Who: cores, Home: DeviceMemory, Host: isI, Dev: isI, Msgs: msgs("tlp_mwr"), Shown: prices("doorbell")},
		{Req: CoreStoreNT, Who: cores, Home: DeviceMemory, Host: isI, Dev: isI, Msgs: msgs("tlp_mwr"), Shown: prices("doorbell")},
		{Req: CoreFlush, Who: cores, Home: DeviceMemory, Host: isI, Dev: isI, Path: prices("hit")},
	}),
}

func pcieLoads(req Request) []Rule {
	return joinRules(coreHits(req, HostMemory), []Rule{
		{Req: req, Who: cores, Host: isI, Dev: isI, Path: prices("agent", "dram"), NextHost: isE, NextCores: only},
		{Req: req, Who: cores, Home: DeviceMemory, Host: isI, Dev: isI, Msgs: msgs("tlp_mrd", "tlp_cpld"), Path: prices("mmio_read")},
	})
}
