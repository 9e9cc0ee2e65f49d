package costs

// The rules of CXL for a line of host memory (CXL.cache), and for a line of device memory that the host
// caches or not (CXL.mem, HDM-D with bias, HDM-DB). Sources: CXL 3.x specification, sections 3.2, 3.3 and
// 3.5; the messages have the names of Linux's drivers/perf/cxl_pmu.c.
//
// Prices: "device" is the device's own pipeline, or a hit in its cache; "link" is a round trip on the
// link; "agent" is the host's home agent and last-level cache; "dram" is the host's memory behind it;
// "forward" is a core that hands over a modified line; "answer" is the device's part when the host
// asks it; "device_dram" is its memory.

// cxlCache is a type 1 device: it caches host memory and has none of its own.
var cxlCache = &Fabric{
	Name:   "cxl.cache",
	Homes:  []Home{HostMemory},
	Reads:  []Request{NCRead, CSRead, CORead},
	Writes: []Request{NCWrite, COWrite, NCPush},
	Rules:  joinRules(cxlReads, cxlWrites, hostOfCXL),
}

// cxlType2 is a type 2 device: it caches host memory, and the host may cache its memory.
var cxlType2 = &Fabric{
	Name:   "cxl.cache+mem",
	Homes:  []Home{HostMemory, DeviceMemory},
	Reads:  []Request{NCRead, CSRead, CORead},
	Writes: []Request{NCWrite, COWrite, NCPush},
	Rules:  joinRules(cxlReads, cxlWrites, hostOfCXL, deviceMemoryByDevice, deviceMemoryByHost),
}

var (
	fromDRAM = prices("device", "link", "agent", "dram")
	fromLLC  = prices("device", "link", "agent")
	fromCore = prices("device", "link", "agent", "forward")
	queryDev = prices("agent", "link", "answer")
)

// cxlReads are the reads of host memory by the device.
var cxlReads = []Rule{
	// Hits in the device's cache.
	{Req: NCRead, Who: device, Host: anyMESI, At: anyPlace, Dev: isSEM, Path: prices("device")},
	{Req: CSRead, Who: device, Host: anyMESI, At: anyPlace, Dev: isSEM, Path: prices("device")},
	{Req: CORead, Who: device, Host: isI, Dev: isEM, Path: prices("device")},

	// No copy stays in the device; the host keeps what it has, also M.
	{Req: NCRead, Who: device, Host: isI, Dev: isI, Msgs: msgs("d2h_req_rdcurr", "cachedata_h2d_data"), Path: fromDRAM},
	{Req: NCRead, Who: device, Host: isSE, At: anyPlace, Dev: isI, Msgs: msgs("d2h_req_rdcurr", "cachedata_h2d_data"), Path: fromLLC},
	{Req: NCRead, Who: device, Host: isM, At: llc, Dev: isI, Msgs: msgs("d2h_req_rdcurr", "cachedata_h2d_data"), Path: fromLLC},
	{Req: NCRead, Who: device, Host: isM, At: theirs, Dev: isI, Msgs: msgs("d2h_req_rdcurr", "cachedata_h2d_data"), Path: fromCore},

	// Both sides share the line. The host writes a modified line to memory.
	{Req: CSRead, Who: device, Host: isI, Dev: isI, Msgs: msgs("d2h_req_rdshared", "h2d_rsp_go", "cachedata_h2d_data"), Path: fromDRAM, NextDev: isS},
	{Req: CSRead, Who: device, Host: isSE, At: anyPlace, Dev: isI, Msgs: msgs("d2h_req_rdshared", "h2d_rsp_go", "cachedata_h2d_data"), Path: fromLLC, NextHost: isS, NextDev: isS},
	{Req: CSRead, Who: device, Host: isM, At: llc, Dev: isI, Msgs: msgs("d2h_req_rdshared", "h2d_rsp_go", "cachedata_h2d_data"), Path: fromLLC, NextHost: isS, NextDev: isS},
	{Req: CSRead, Who: device, Host: isM, At: theirs, Dev: isI, Msgs: msgs("d2h_req_rdshared", "h2d_rsp_go", "cachedata_h2d_data"), Path: fromCore, NextHost: isS, NextDev: isS},

	// The device owns the line. A modified line arrives modified (GO-M).
	{Req: CORead, Who: device, Host: isI, Dev: isI, Msgs: msgs("d2h_req_rdown", "h2d_rsp_go", "cachedata_h2d_data"), Path: fromDRAM, NextDev: isE},
	{Req: CORead, Who: device, Host: isSE, At: anyPlace, Dev: isI, Msgs: msgs("d2h_req_rdown", "h2d_rsp_go", "cachedata_h2d_data"), Path: fromLLC, NextHost: isI, NextCores: none, NextDev: isE},
	{Req: CORead, Who: device, Host: isM, At: llc, Dev: isI, Msgs: msgs("d2h_req_rdown", "h2d_rsp_go", "cachedata_h2d_data"), Path: fromLLC, NextHost: isI, NextCores: none, NextDev: isM},
	{Req: CORead, Who: device, Host: isM, At: theirs, Dev: isI, Msgs: msgs("d2h_req_rdown", "h2d_rsp_go", "cachedata_h2d_data"), Path: fromCore, NextHost: isI, NextCores: none, NextDev: isM},
	{Req: CORead, Who: device, Host: isI | isS, At: anyPlace, Dev: isS, Msgs: msgs("d2h_req_rdownnodata", "h2d_rsp_go"), Path: fromLLC, NextHost: isI, NextCores: none, NextDev: isE},
}

// cxlWrites are the writes of whole lines of host memory by the device. A write replaces the line, so
// a modified copy of the host is dropped, not lost.
var cxlWrites = []Rule{
	{Req: NCWrite, Who: device, Host: anyMESI, At: anyPlace, Dev: anyMESI, Msgs: msgs("d2h_req_wowrinvf", "h2d_rsp_fastgowritepull", "cachedata_d2h_data", "h2d_rsp_extcmp"), Path: fromLLC, NextHost: isI, NextCores: none, NextDev: isI, Order: Awaited},
	{Req: NCPush, Who: device, Host: anyMESI, At: anyPlace, Dev: anyMESI, Msgs: msgs("d2h_req_itomwr", "h2d_rsp_gowritepull", "cachedata_d2h_data"), Path: fromLLC, NextHost: isM, NextCores: none, NextDev: isI, Order: Awaited},
	{Req: COWrite, Who: device, Host: isI, Dev: isEM, Path: prices("device"), NextDev: isM, Order: Awaited},
	{Req: COWrite, Who: device, Host: anyMESI, At: anyPlace, Dev: isI | isS, Msgs: msgs("d2h_req_rdownnodata", "h2d_rsp_go"), Path: fromLLC, NextHost: isI, NextCores: none, NextDev: isM, Order: Awaited},

	{Req: DevFlush, Who: device, Host: anyMESI, At: anyPlace, Dev: isI},
	{Req: DevFlush, Who: device, Host: isI | isS, At: anyPlace, Dev: isSE, Msgs: msgs("d2h_req_cleanevictnodata", "h2d_rsp_go"), Path: fromLLC, NextDev: isI},
	{Req: DevFlush, Who: device, Host: isI, Dev: isM, Msgs: msgs("d2h_req_dirtyevict", "h2d_rsp_gowritepull", "cachedata_d2h_data"), Path: fromLLC, NextDev: isI},
}

// hostOfCXL are the accesses of the host's cores to host memory. The host asks the device only about
// lines that the device holds.
var hostOfCXL = joinRules(hostLoads(CoreLoad), hostLoads(CoreKnown), []Rule{
	{Req: CoreStore, Who: cores, Host: isEM, At: mine, Dev: isI, Path: prices("hit"), NextHost: isM},
	{Req: CoreStore, Who: cores, Host: isE, At: lone, Dev: isI, Path: prices("agent"), NextHost: isM, NextCores: only},
	{Req: CoreStore, Who: cores, Host: isM, At: llc, Dev: isI, Path: prices("agent"), NextCores: only},
	{Req: CoreStore, Who: cores, Host: isM, At: theirs, Dev: isI, Path: prices("agent", "forward"), NextCores: only},
	{Req: CoreStore, Who: cores, Host: isS, At: anyPlace, Dev: isI, Path: prices("agent"), NextHost: isM, NextCores: only},
	{Req: CoreStore, Who: cores, Host: isI, Dev: isI, Path: prices("agent", "dram"), NextHost: isM, NextCores: only},
	{Req: CoreStore, Who: cores, Host: isI | isS, At: anyPlace, Dev: isS, Msgs: msgs("h2d_req_snpinv", "d2h_rsp_rspihitse"), Path: queryDev, NextHost: isM, NextCores: only, NextDev: isI},
	{Req: CoreStore, Who: cores, Host: isI, Dev: isE, Msgs: msgs("h2d_req_snpinv", "d2h_rsp_rspihitse"), Path: queryDev, NextHost: isM, NextCores: only, NextDev: isI},
	{Req: CoreStore, Who: cores, Host: isI, Dev: isM, Msgs: msgs("h2d_req_snpinv", "d2h_rsp_rspifwdm", "cachedata_d2h_data"), Path: queryDev, NextHost: isM, NextCores: only, NextDev: isI},

	{Req: CoreStoreNT, Who: cores, Host: anyMESI, At: anyPlace, Dev: isI, Shown: prices("agent"), NextHost: isI, NextCores: none},
	{Req: CoreStoreNT, Who: cores, Host: isI | isS, At: anyPlace, Dev: isSE, Msgs: msgs("h2d_req_snpinv", "d2h_rsp_rspihitse"), Shown: queryDev, NextHost: isI, NextCores: none, NextDev: isI},
	{Req: CoreStoreNT, Who: cores, Host: isI, Dev: isM, Msgs: msgs("h2d_req_snpinv", "d2h_rsp_rspifwdm", "cachedata_d2h_data"), Shown: queryDev, NextDev: isI},

	{Req: CoreFlush, Who: cores, Host: isI, Dev: isI, Path: prices("hit")},
	{Req: CoreFlush, Who: cores, Host: isSE, At: anyPlace, Dev: isI, Path: prices("agent"), NextHost: isI, NextCores: none},
	{Req: CoreFlush, Who: cores, Host: isM, At: anyPlace, Dev: isI, Path: prices("agent", "dram"), NextHost: isI, NextCores: none},
	{Req: CoreFlush, Who: cores, Host: isI | isS, At: anyPlace, Dev: isSE, Msgs: msgs("h2d_req_snpinv", "d2h_rsp_rspihitse"), Path: queryDev, NextHost: isI, NextCores: none, NextDev: isI},
	{Req: CoreFlush, Who: cores, Host: isI, Dev: isM, Msgs: msgs("h2d_req_snpinv", "d2h_rsp_rspifwdm", "cachedata_d2h_data"), Path: queryDev, NextDev: isI},
})

// coreHits are the loads that the host's own caches satisfy, whatever memory the line belongs to. A modified
// line that becomes shared is written back, behind the link if its memory is there; no agent waits for that.
func coreHits(req Request, home Home) []Rule {
	var back []string
	if home != HostMemory {
		back = msgs("m2s_rwd_memwr", "s2m_ndr_cmp")
	}
	return []Rule{
		{Req: req, Who: cores, Home: home, Host: isSEM, At: held, Dev: isI | isS, Path: prices("hit")},
		{Req: req, Who: cores, Home: home, Host: isS, At: lone, Dev: isI | isS, Path: prices("agent"), NextCores: join},
		{Req: req, Who: cores, Home: home, Host: isE, At: theirs, Dev: isI, Path: prices("agent"), NextHost: isS, NextCores: join},
		{Req: req, Who: cores, Home: home, Host: isM, At: theirs, Dev: isI, Msgs: back, Path: prices("agent", "forward"), NextHost: isS, NextCores: join},
		{Req: req, Who: cores, Home: home, Host: isEM, At: llc, Dev: isI, Path: prices("agent"), NextCores: only},
	}
}

func hostLoads(req Request) []Rule {
	return joinRules(coreHits(req, HostMemory), []Rule{
		{Req: req, Who: cores, Host: isI, Dev: isI, Path: prices("agent", "dram"), NextHost: isE, NextCores: only},
		{Req: req, Who: cores, Host: isI, Dev: isS, Path: prices("agent", "dram"), NextHost: isS, NextCores: only},
		{Req: req, Who: cores, Host: isI, Dev: isE, Msgs: msgs("h2d_req_snpdata", "d2h_rsp_rspshitse"), Path: queryDev, NextHost: isS, NextCores: only, NextDev: isS},
		{Req: req, Who: cores, Host: isI, Dev: isM, Msgs: msgs("h2d_req_snpdata", "d2h_rsp_rspsfwdm", "cachedata_d2h_data"), Path: queryDev, NextHost: isS, NextCores: only, NextDev: isS},
	})
}

// msgs is a list of names of messages.
func msgs(names ...string) []string { return names }
