package costs

// Lines of device memory. In host bias the host may cache them, so the device asks the host before each
// access: its request on CXL.cache is answered by a forward on CXL.mem (MemRdFwd, MemWrFwd). With HDM-DB of
// CXL 3 the device asks by a back-invalidation instead, which costs the same round trip. In device bias the
// device sends no such request, and the host accesses the line without caching it.

var (
	queryHost     = prices("device", "link", "agent", "device_dram")
	queryHostCore = prices("device", "link", "agent", "forward", "device_dram")
	loadDev       = prices("agent", "link", "answer", "device_dram")
)

// deviceMemoryByDevice are the device's accesses to its own memory. A cacheable read leaves a copy in
// the device's cache, which a store of the host takes away.
var deviceMemoryByDevice = joinRules(
	ownReads(NCRead, isS, same, 0), ownReads(CSRead, isS, same, isS), ownReads(CORead, isI, none, isS),
	ownWrites(NCWrite), ownWrites(COWrite),
	[]Rule{
		{Req: NCPush, Who: device, Home: DeviceMemory, Host: anyMESI, At: anyPlace, Dev: isI | isS, Msgs: msgs("d2h_req_itomwr", "h2d_rsp_gowritepull", "cachedata_d2h_data"), Path: fromLLC, NextHost: isM, NextCores: none, NextDev: isI, Order: Awaited},
		{Req: NCPush, Who: device, Home: DeviceMemory, Bias: DeviceBias, Host: isI, Dev: isI | isS, Path: prices("device"), NextDev: isI, Order: Awaited},
		{Req: DevFlush, Who: device, Home: DeviceMemory, Host: anyMESI, At: anyPlace, Dev: isI | isS, NextDev: isI},
		{Req: DevFlush, Who: device, Home: DeviceMemory, Bias: DeviceBias, Host: isI, Dev: isI | isS, NextDev: isI},
	})

// ownReads returns the rules of a read. A modified line of the host is written back first. The argument left
// is the state of a copy in the host afterwards, stay says which cores keep it, and kept is the state of the
// device's copy.
func ownReads(req Request, left mesiSet, stay move, kept mesiSet) []Rule {
	ask := msgs("d2h_req_rdcurr", "m2s_req_memrdfwd")
	back := msgs("d2h_req_rdcurr", "m2s_rwd_memwr", "s2m_ndr_cmp", "m2s_req_memrdfwd")
	if req == CORead {
		ask[0], back[0] = "d2h_req_rdown", "d2h_req_rdown"
	} else if req == CSRead {
		ask[0], back[0] = "d2h_req_rdshared", "d2h_req_rdshared"
	}
	shared := Rule{Req: req, Who: device, Home: DeviceMemory, Host: isS, At: anyPlace, Dev: isS,
		Path: prices("device")}
	if req == CORead { // it has the data, but not alone
		shared.Msgs, shared.Path = msgs("d2h_req_rdownnodata", "m2s_req_memrdfwd"), fromLLC
		shared.NextHost, shared.NextCores = left, stay
	}
	return []Rule{
		shared,
		{Req: req, Who: device, Home: DeviceMemory, Bias: DeviceBias, Host: isI, Dev: isS, Path: prices("device")},
		{Req: req, Who: device, Home: DeviceMemory, Host: isI, Dev: isS, Path: prices("device")},
		{Req: req, Who: device, Home: DeviceMemory, Bias: DeviceBias, Host: isI, Dev: isI, Path: prices("device", "device_dram"), NextDev: kept},
		{Req: req, Who: device, Home: DeviceMemory, Host: isI, Dev: isI, Msgs: ask, Path: queryHost, NextDev: kept},
		{Req: req, Who: device, Home: DeviceMemory, Host: isSE, At: anyPlace, Dev: isI, Msgs: ask, Path: queryHost, NextHost: left, NextCores: stay, NextDev: kept},
		{Req: req, Who: device, Home: DeviceMemory, Host: isM, At: llc, Dev: isI, Msgs: back, Path: queryHost, NextHost: left, NextCores: stay, NextDev: kept},
		{Req: req, Who: device, Home: DeviceMemory, Host: isM, At: theirs, Dev: isI, Msgs: back, Path: queryHostCore, NextHost: left, NextCores: stay, NextDev: kept},
	}
}

// ownWrites returns the rules of a write that is ordered weakly: the data never cross the link.
func ownWrites(req Request) []Rule {
	return []Rule{
		{Req: req, Who: device, Home: DeviceMemory, Bias: DeviceBias, Host: isI, Dev: isI | isS, Path: prices("device"), NextDev: isI, Order: Awaited},
		{Req: req, Who: device, Home: DeviceMemory, Host: anyMESI, At: anyPlace, Dev: isI | isS, Msgs: msgs("d2h_req_wowrinvf", "m2s_req_memwrfwd"), Path: fromLLC, NextHost: isI, NextCores: none, NextDev: isI, Order: Awaited},
	}
}

// deviceMemoryByHost are the host's accesses to device memory.
var deviceMemoryByHost = joinRules(farLoads(CoreLoad), farLoads(CoreKnown), []Rule{
	{Req: CoreStore, Who: cores, Home: DeviceMemory, Host: isEM, At: mine, Dev: isI, Path: prices("hit"), NextHost: isM},
	{Req: CoreStore, Who: cores, Home: DeviceMemory, Host: isE, At: lone, Dev: isI, Path: prices("agent"), NextHost: isM, NextCores: only},
	{Req: CoreStore, Who: cores, Home: DeviceMemory, Host: isM, At: llc, Dev: isI, Path: prices("agent"), NextCores: only},
	{Req: CoreStore, Who: cores, Home: DeviceMemory, Host: isM, At: theirs, Dev: isI, Path: prices("agent", "forward"), NextCores: only},
	{Req: CoreStore, Who: cores, Home: DeviceMemory, Host: isS, At: anyPlace, Dev: isI | isS, Msgs: msgs("m2s_req_meminv", "s2m_ndr_cmpe"), Path: queryDev, NextHost: isM, NextCores: only, NextDev: isI},
	{Req: CoreStore, Who: cores, Home: DeviceMemory, Host: isI, Dev: isI | isS, Msgs: msgs("m2s_req_memrd", "s2m_ndr_cmpe", "s2m_drs_memdata"), Path: loadDev, NextHost: isM, NextCores: only, NextDev: isI},
	{Req: CoreStoreNT, Who: cores, Home: DeviceMemory, Host: anyMESI, At: anyPlace, Dev: isI | isS, Msgs: msgs("m2s_rwd_memwr", "s2m_ndr_cmp"), Shown: queryDev, NextHost: isI, NextCores: none, NextDev: isI},
	{Req: CoreFlush, Who: cores, Home: DeviceMemory, Host: isI, Dev: isI | isS, Path: prices("hit")},
	{Req: CoreFlush, Who: cores, Home: DeviceMemory, Host: isSE, At: anyPlace, Dev: isI | isS, Path: prices("agent"), NextHost: isI, NextCores: none},
	{Req: CoreFlush, Who: cores, Home: DeviceMemory, Host: isM, At: anyPlace, Dev: isI, Msgs: msgs("m2s_rwd_memwr", "s2m_ndr_cmp"), Path: queryDev, NextHost: isI, NextCores: none},

	// Device bias: no copy stays in the host's caches.
	{Req: CoreStore, Who: cores, Home: DeviceMemory, Bias: DeviceBias, Host: isI, Dev: isI | isS, Msgs: msgs("m2s_rwd_memwr", "s2m_ndr_cmp"), Shown: queryDev, NextDev: isI},
	{Req: CoreStoreNT, Who: cores, Home: DeviceMemory, Bias: DeviceBias, Host: isI, Dev: isI | isS, Msgs: msgs("m2s_rwd_memwr", "s2m_ndr_cmp"), Shown: queryDev, NextDev: isI},
	{Req: CoreFlush, Who: cores, Home: DeviceMemory, Bias: DeviceBias, Host: isI, Dev: isI | isS, Path: prices("hit")},
})

func farLoads(req Request) []Rule {
	fetch := msgs("m2s_req_memrd", "s2m_ndr_cmpe", "s2m_drs_memdata")
	return joinRules(coreHits(req, DeviceMemory), []Rule{
		{Req: req, Who: cores, Home: DeviceMemory, Host: isI, Dev: isI, Msgs: fetch, Path: loadDev, NextHost: isE, NextCores: only},
		{Req: req, Who: cores, Home: DeviceMemory, Host: isI, Dev: isS, Msgs: msgs("m2s_req_memrd", "s2m_ndr_cmps", "s2m_drs_memdata"), Path: loadDev, NextHost: isS, NextCores: only},
		{Req: req, Who: cores, Home: DeviceMemory, Bias: DeviceBias, Host: isI, Dev: isI | isS, Msgs: msgs("m2s_req_memrd", "s2m_drs_memdata"), Path: loadDev},
	})
}
