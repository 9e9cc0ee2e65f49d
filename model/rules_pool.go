package model

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
		{Req: CoreStore, Who: all, Home: PoolMemory, Host: isI, Dev: isI, Msgs: msgs("m2s_rwd_memwr", "s2m_ndr_cmp"), Shown: prices("pool_store")},
		{Req: CoreStoreNT, Who: all, Home: PoolMemory, Host: isI, Dev: isI, Msgs: msgs("m2s_rwd_memwr", "s2m_ndr_cmp"), Shown: prices("pool_store")},
		{Req: CoreFlush, Who: all, Home: PoolMemory, Host: isI, Dev: isI, Path: prices("hit")},
	},
}

// poolCoherent is a pool whose device keeps the hosts coherent by back-invalidation (HDM-DB of
// CXL 3). A poller holds a copy; a writer pays for taking it away.
var poolCoherent = &Fabric{
	Name:  "pool-bi",
	Homes: []Home{PoolMemory},
	Rules: joinRules(poolCores(CoreLoad, "pool_load"), poolCores(CoreKnown, "pool_known"), poolDevice(CoreLoad, "pool_load"), poolDevice(CoreKnown, "pool_known"), []Rule{
		{Req: CoreStore, Who: cores, Home: PoolMemory, Host: isEM, At: mine, Dev: isI, Path: prices("hit"), NextHost: isM},
		{Req: CoreStore, Who: cores, Home: PoolMemory, Host: isEM, At: lone, Dev: isI, Path: prices("agent"), NextHost: isM, NextCores: only},
		{Req: CoreStore, Who: cores, Home: PoolMemory, Host: isI | isS, At: anyPlace, Dev: isI, Msgs: msgs("m2s_req_memrd", "s2m_ndr_cmpe", "s2m_drs_memdata"), Path: prices("pool_load"), NextHost: isM, NextCores: only},
		{Req: CoreStore, Who: cores, Home: PoolMemory, Host: isI | isS, At: anyPlace, Dev: isS, Msgs: msgs("m2s_req_memrd", "s2m_bisnp_inv", "m2s_birsp_i", "s2m_ndr_cmpe"), Path: prices("pool_load", "pool_snoop"), NextHost: isM, NextCores: only, NextDev: isI},
		{Req: CoreStore, Who: cores, Home: PoolMemory, Host: isI, Dev: isEM, Msgs: msgs("m2s_req_memrd", "s2m_bisnp_inv", "m2s_birsp_i", "s2m_ndr_cmpe"), Path: prices("pool_load", "pool_snoop"), NextHost: isM, NextCores: only, NextDev: isI},
		{Req: CoreStore, Who: device, Home: PoolMemory, Host: isI, Dev: isEM, Path: prices("hit"), NextDev: isM},
		{Req: CoreStore, Who: device, Home: PoolMemory, Host: isI, Dev: isI | isS, Msgs: msgs("m2s_req_memrd", "s2m_ndr_cmpe", "s2m_drs_memdata"), Path: prices("pool_load"), NextDev: isM},
		{Req: CoreStore, Who: device, Home: PoolMemory, Host: isSEM, At: anyPlace, Dev: isI | isS, Msgs: msgs("m2s_req_memrd", "s2m_bisnp_inv", "m2s_birsp_i", "s2m_ndr_cmpe"), Path: prices("pool_load", "pool_snoop"), NextHost: isI, NextCores: none, NextDev: isM},

		{Req: CoreStoreNT, Who: all, Home: PoolMemory, Host: isI, Dev: isI, Msgs: msgs("m2s_rwd_memwr", "s2m_ndr_cmp"), Shown: prices("pool_store")},
		{Req: CoreStoreNT, Who: all, Home: PoolMemory, Host: isSEM, At: anyPlace, Dev: isI | isS, Msgs: msgs("m2s_rwd_memwr", "s2m_bisnp_inv", "m2s_birsp_i", "s2m_ndr_cmp"), Shown: prices("pool_store", "pool_snoop"), NextHost: isI, NextCores: none, NextDev: isI},
		{Req: CoreStoreNT, Who: all, Home: PoolMemory, Host: isI, Dev: isSEM, Msgs: msgs("m2s_rwd_memwr", "s2m_bisnp_inv", "m2s_birsp_i", "s2m_ndr_cmp"), Shown: prices("pool_store", "pool_snoop"), NextDev: isI},
		{Req: CoreFlush, Who: all, Home: PoolMemory, Host: anyMESI, At: anyPlace, Dev: anyMESI, Msgs: msgs("m2s_rwd_memwr", "s2m_ndr_cmp"), Path: prices("pool_store"), NextHost: isI, NextCores: none, NextDev: isI},
	}),
}

func poolCores(req Request, far string) []Rule {
	return joinRules(coreHits(req, PoolMemory), []Rule{
		{Req: req, Who: cores, Home: PoolMemory, Host: isI, Dev: isI, Msgs: msgs("m2s_req_memrd", "s2m_ndr_cmpe", "s2m_drs_memdata"), Path: prices(far), NextHost: isE, NextCores: only},
		{Req: req, Who: cores, Home: PoolMemory, Host: isI, Dev: isS, Msgs: msgs("m2s_req_memrd", "s2m_ndr_cmps", "s2m_drs_memdata"), Path: prices(far), NextHost: isS, NextCores: only},
		{Req: req, Who: cores, Home: PoolMemory, Host: isI, Dev: isEM, Msgs: msgs("m2s_req_memrd", "s2m_bisnp_data", "m2s_birsp_s", "s2m_ndr_cmps", "s2m_drs_memdata"), Path: prices(far, "pool_snoop"), NextHost: isS, NextCores: only, NextDev: isS},
	})
}

func poolDevice(req Request, far string) []Rule {
	return []Rule{
		{Req: req, Who: device, Home: PoolMemory, Host: anyMESI, At: anyPlace, Dev: isSEM, Path: prices("hit")},
		{Req: req, Who: device, Home: PoolMemory, Host: isI, Dev: isI, Msgs: msgs("m2s_req_memrd", "s2m_ndr_cmpe", "s2m_drs_memdata"), Path: prices(far), NextDev: isE},
		{Req: req, Who: device, Home: PoolMemory, Host: isS, At: anyPlace, Dev: isI, Msgs: msgs("m2s_req_memrd", "s2m_ndr_cmps", "s2m_drs_memdata"), Path: prices(far), NextDev: isS},
		{Req: req, Who: device, Home: PoolMemory, Host: isEM, At: anyPlace, Dev: isI, Msgs: msgs("m2s_req_memrd", "s2m_bisnp_data", "m2s_birsp_s", "s2m_ndr_cmps", "s2m_drs_memdata"), Path: prices(far, "pool_snoop"), NextHost: isS, NextDev: isS},
	}
}
