package costs

import "slices"

// Memory that several hosts share: a pool behind CXL. Host and Peer run on one node; the device (an
// engine on a core) runs on another.

// poolPlain is a pool without coherence between hosts. A writer flushes what it has written; a
// reader drops its copy and fetches the line again, at each poll too. No line stays in a cache.
var poolPlain = &Fabric{
	Name:  "pool",
	Homes: []Home{PoolMemory},
	Rules: []Rule{
		{Req: CoreLoad, Who: all, Home: PoolMemory, Host: isI, Dev: isI, Msgs: msgs("m2s_req_memrd", "s2m_drs_memdata"), Path: prices("pool_load")},
		{Req: CoreKnown, Who: all, Home: PoolMemory, Host: isI, Dev: isI, Msgs: msgs("m2s_req_memrd", "s2m_drs_memdata"), Path: prices("pool_known")},
		{Req: CoreStore, Who: all, Home: PoolMemory, Host: isI, Dev: isI, Msgs: msgs("m2s_rwd_memwr", "s2m_ndr_cmp"), Shown: prices("pool_store"), Order: Awaited},
		{Req: CoreStoreNT, Who: all, Home: PoolMemory, Host: isI, Dev: isI, Msgs: msgs("m2s_rwd_memwr", "s2m_ndr_cmp"), Shown: prices("pool_store"), Order: Awaited},
		{Req: CoreFlush, Who: all, Home: PoolMemory, Host: isI, Dev: isI, Path: prices("hit")},
	},
}

// poolCoherent is a pool whose device keeps the hosts coherent by back-invalidation (HDM-DB of
// CXL 3). A poller holds a copy; a writer pays for taking it away.
var poolCoherent = &Fabric{
	Name:  "pool-bi",
	Homes: []Home{PoolMemory},
	Rules: joinRules(poolCores(CoreLoad, "pool_load"), poolCores(CoreKnown, "pool_known"),
		poolDevice(CoreLoad, "pool_load"), poolDevice(CoreKnown, "pool_known"),
		poolStores, poolStoresNT, poolFlushes),
}

// Messages of a coherent pool. The other host answers a back-invalidation without data: what it has modified
// it writes to the pool first.
var (
	poolWrite  = msgs("m2s_rwd_memwr", "s2m_ndr_cmp")
	poolFetch  = msgs("m2s_req_memrd", "s2m_ndr_cmpe", "s2m_drs_memdata")
	poolShare  = msgs("m2s_req_memrd", "s2m_ndr_cmps", "s2m_drs_memdata")
	poolOwn    = msgs("m2s_req_meminv", "s2m_ndr_cmpe") // of a line whose data one has
	snoopInv   = msgs("s2m_bisnp_inv", "m2s_birsp_i")
	snoopData  = msgs("s2m_bisnp_data", "m2s_birsp_s")
	snoopInvM  = slices.Concat(snoopInv, poolWrite)
	snoopDataM = slices.Concat(snoopData, poolWrite)
	snooped    = prices("pool_load", "pool_snoop")
)

var poolStores = []Rule{
	{Req: CoreStore, Who: cores, Home: PoolMemory, Host: isEM, At: mine, Dev: isI, Path: prices("hit"), NextHost: isM},
	{Req: CoreStore, Who: cores, Home: PoolMemory, Host: isE, At: lone, Dev: isI, Path: prices("agent"), NextHost: isM, NextCores: only},
	{Req: CoreStore, Who: cores, Home: PoolMemory, Host: isM, At: llc, Dev: isI, Path: prices("agent"), NextCores: only},
	{Req: CoreStore, Who: cores, Home: PoolMemory, Host: isM, At: theirs, Dev: isI, Path: prices("agent", "forward"), NextCores: only},
	{Req: CoreStore, Who: cores, Home: PoolMemory, Host: isS, At: anyPlace, Dev: isI, Msgs: poolOwn, Path: prices("pool_load"), NextHost: isM, NextCores: only},
	{Req: CoreStore, Who: cores, Home: PoolMemory, Host: isI, Dev: isI, Msgs: poolFetch, Path: prices("pool_load"), NextHost: isM, NextCores: only},
	{Req: CoreStore, Who: cores, Home: PoolMemory, Host: isS, At: anyPlace, Dev: isS, Msgs: slices.Concat(poolOwn, snoopInv), Path: snooped, NextHost: isM, NextCores: only, NextDev: isI},
	{Req: CoreStore, Who: cores, Home: PoolMemory, Host: isI, Dev: isSE, Msgs: slices.Concat(poolFetch, snoopInv), Path: snooped, NextHost: isM, NextCores: only, NextDev: isI},
	{Req: CoreStore, Who: cores, Home: PoolMemory, Host: isI, Dev: isM, Msgs: slices.Concat(poolFetch, snoopInvM), Path: snooped, NextHost: isM, NextCores: only, NextDev: isI},

	{Req: CoreStore, Who: device, Home: PoolMemory, Host: isI, Dev: isEM, Path: prices("hit"), NextDev: isM},
	{Req: CoreStore, Who: device, Home: PoolMemory, Host: isI, Dev: isS, Msgs: poolOwn, Path: prices("pool_load"), NextDev: isM},
	{Req: CoreStore, Who: device, Home: PoolMemory, Host: isI, Dev: isI, Msgs: poolFetch, Path: prices("pool_load"), NextDev: isM},
	{Req: CoreStore, Who: device, Home: PoolMemory, Host: isS, At: anyPlace, Dev: isS, Msgs: slices.Concat(poolOwn, snoopInv), Path: snooped, NextHost: isI, NextCores: none, NextDev: isM},
	{Req: CoreStore, Who: device, Home: PoolMemory, Host: isSE, At: anyPlace, Dev: isI, Msgs: slices.Concat(poolFetch, snoopInv), Path: snooped, NextHost: isI, NextCores: none, NextDev: isM},
	{Req: CoreStore, Who: device, Home: PoolMemory, Host: isM, At: anyPlace, Dev: isI, Msgs: slices.Concat(poolFetch, snoopInvM), Path: snooped, NextHost: isI, NextCores: none, NextDev: isM},
}

// poolStoresNT write a whole line. The writer drops its own copy without a message.
var poolStoresNT = []Rule{
	{Req: CoreStoreNT, Who: cores, Home: PoolMemory, Host: anyMESI, At: anyPlace, Dev: isI, Msgs: poolWrite, Shown: prices("pool_store"), NextHost: isI, NextCores: none},
	{Req: CoreStoreNT, Who: cores, Home: PoolMemory, Host: isI | isS, At: anyPlace, Dev: isSE, Msgs: slices.Concat(poolWrite, snoopInv), Shown: prices("pool_store", "pool_snoop"), NextHost: isI, NextCores: none, NextDev: isI},
	{Req: CoreStoreNT, Who: cores, Home: PoolMemory, Host: isI, Dev: isM, Msgs: slices.Concat(poolWrite, snoopInvM), Shown: prices("pool_store", "pool_snoop"), NextDev: isI},
	{Req: CoreStoreNT, Who: device, Home: PoolMemory, Host: isI, Dev: anyMESI, Msgs: poolWrite, Shown: prices("pool_store"), NextDev: isI},
	{Req: CoreStoreNT, Who: device, Home: PoolMemory, Host: isSE, At: anyPlace, Dev: isI | isS, Msgs: slices.Concat(poolWrite, snoopInv), Shown: prices("pool_store", "pool_snoop"), NextHost: isI, NextCores: none, NextDev: isI},
	{Req: CoreStoreNT, Who: device, Home: PoolMemory, Host: isM, At: anyPlace, Dev: isI, Msgs: slices.Concat(poolWrite, snoopInvM), Shown: prices("pool_store", "pool_snoop"), NextHost: isI, NextCores: none},
}

// poolFlushes take the line from the caches of the host that flushes.
var poolFlushes = []Rule{
	{Req: CoreFlush, Who: cores, Home: PoolMemory, Host: isI, Dev: anyMESI, Path: prices("hit")},
	{Req: CoreFlush, Who: cores, Home: PoolMemory, Host: isSE, At: anyPlace, Dev: isI | isS, Path: prices("agent"), NextHost: isI, NextCores: none},
	{Req: CoreFlush, Who: cores, Home: PoolMemory, Host: isM, At: anyPlace, Dev: isI, Msgs: poolWrite, Path: prices("pool_store"), NextHost: isI, NextCores: none},
	{Req: CoreFlush, Who: device, Home: PoolMemory, Host: anyMESI, At: anyPlace, Dev: isI, Path: prices("hit")},
	{Req: CoreFlush, Who: device, Home: PoolMemory, Host: isI | isS, At: anyPlace, Dev: isSE, Path: prices("agent"), NextDev: isI},
	{Req: CoreFlush, Who: device, Home: PoolMemory, Host: isI, Dev: isM, Msgs: poolWrite, Path: prices("pool_store"), NextDev: isI},
}

func poolCores(req Request, far string) []Rule {
	return joinRules(coreHits(req, PoolMemory), []Rule{
		{Req: req, Who: cores, Home: PoolMemory, Host: isI, Dev: isI, Msgs: poolFetch, Path: prices(far), NextHost: isE, NextCores: only},
		{Req: req, Who: cores, Home: PoolMemory, Host: isI, Dev: isS, Msgs: poolShare, Path: prices(far), NextHost: isS, NextCores: only},
		{Req: req, Who: cores, Home: PoolMemory, Host: isI, Dev: isE, Msgs: slices.Concat(poolShare, snoopData), Path: prices(far, "pool_snoop"), NextHost: isS, NextCores: only, NextDev: isS},
		{Req: req, Who: cores, Home: PoolMemory, Host: isI, Dev: isM, Msgs: slices.Concat(poolShare, snoopDataM), Path: prices(far, "pool_snoop"), NextHost: isS, NextCores: only, NextDev: isS},
	})
}

func poolDevice(req Request, far string) []Rule {
	return []Rule{
		{Req: req, Who: device, Home: PoolMemory, Host: anyMESI, At: anyPlace, Dev: isSEM, Path: prices("hit")},
		{Req: req, Who: device, Home: PoolMemory, Host: isI, Dev: isI, Msgs: poolFetch, Path: prices(far), NextDev: isE},
		{Req: req, Who: device, Home: PoolMemory, Host: isS, At: anyPlace, Dev: isI, Msgs: poolShare, Path: prices(far), NextDev: isS},
		{Req: req, Who: device, Home: PoolMemory, Host: isE, At: anyPlace, Dev: isI, Msgs: slices.Concat(poolShare, snoopData), Path: prices(far, "pool_snoop"), NextHost: isS, NextDev: isS},
		{Req: req, Who: device, Home: PoolMemory, Host: isM, At: anyPlace, Dev: isI, Msgs: slices.Concat(poolShare, snoopDataM), Path: prices(far, "pool_snoop"), NextHost: isS, NextDev: isS},
	}
}
