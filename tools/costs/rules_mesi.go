package costs

// mesi is the fabric of the cores of one host, or of several sockets: the device is a core too. A store
// to a line that others share costs an upgrade. A load of a line that another core has
// modified costs a miss. A load whose address the core knew before costs less, because loads overlap.
// Caches do not evict, so a line that a core has had is in some core until it is flushed.
var mesi = &Fabric{
	Name:  "mesi",
	Homes: []Home{HostMemory},
	Rules: joinRules(mesiCores, mesiDevice),
}

// mesiCores are the rules for the cores of Host and Peer.
var mesiCores = joinRules(mesiLoad(CoreLoad, "miss"), mesiLoad(CoreKnown, "data"), []Rule{
	{Req: CoreStore, Who: cores, Host: isEM, At: mine, Dev: isI, Path: prices("hit"), NextHost: isM},
	{Req: CoreStore, Who: cores, Host: isEM, At: theirs, Dev: isI, Path: prices("miss"), NextHost: isM, NextCores: only},
	{Req: CoreStore, Who: cores, Host: isS, At: both, Dev: anyMESI, Path: prices("upgrade"), NextHost: isM, NextCores: only, NextDev: isI},
	{Req: CoreStore, Who: cores, Host: isS, At: mine, Dev: isS, Path: prices("upgrade"), NextHost: isM, NextCores: only, NextDev: isI},
	{Req: CoreStore, Who: cores, Host: isS, At: theirs, Dev: anyMESI, Path: prices("miss"), NextHost: isM, NextCores: only, NextDev: isI},
	{Req: CoreStore, Who: cores, Host: isI, Dev: isI, Path: prices("dram_load"), NextHost: isM, NextCores: only},
	{Req: CoreStore, Who: cores, Host: isI, Dev: isSEM, Path: prices("miss"), NextHost: isM, NextCores: only, NextDev: isI},

	{Req: CoreStoreNT, Who: cores, Host: anyMESI, At: anyPlace, Dev: anyMESI, Shown: prices("dram_load"), NextHost: isI, NextCores: none, NextDev: isI},
	{Req: CoreFlush, Who: all, Host: anyMESI, At: anyPlace, Dev: anyMESI, Path: prices("dram_load"), NextHost: isI, NextCores: none, NextDev: isI},
})

// mesiLoad returns the rules for loads by cores. The argument far is the price of a line that another
// core has modified.
func mesiLoad(req Request, far string) []Rule {
	return []Rule{
		{Req: req, Who: cores, Host: isSEM, At: held, Dev: anyMESI, Path: prices("hit")},
		{Req: req, Who: cores, Host: isEM, At: theirs, Dev: isI, Path: prices(far), NextHost: isS, NextCores: join},
		{Req: req, Who: cores, Host: isS, At: lone, Dev: isI | isS, Path: prices("llc_load"), NextCores: join},
		{Req: req, Who: cores, Host: isI, Dev: isI, Path: prices("dram_load"), NextHost: isE, NextCores: only},
		{Req: req, Who: cores, Host: isI, Dev: isEM, Path: prices(far), NextHost: isS, NextCores: only, NextDev: isS},
	}
}

// mesiDevice are the rules for the device, which is a core like the others.
var mesiDevice = joinRules(mesiDevLoad(CoreLoad, "miss"), mesiDevLoad(CoreKnown, "data"), []Rule{
	{Req: CoreStore, Who: device, Host: isI, Dev: isSEM, Path: prices("hit"), NextDev: isM},
	{Req: CoreStore, Who: device, Host: isS, At: anyPlace, Dev: isS, Path: prices("upgrade"), NextHost: isI, NextCores: none, NextDev: isM},
	{Req: CoreStore, Who: device, Host: isI, Dev: isI, Path: prices("dram_load"), NextDev: isM},
	{Req: CoreStore, Who: device, Host: isSEM, At: theirs, Dev: isI, Path: prices("miss"), NextHost: isI, NextCores: none, NextDev: isM},
	{Req: CoreStoreNT, Who: device, Host: anyMESI, At: anyPlace, Dev: anyMESI, Shown: prices("dram_load"), NextHost: isI, NextCores: none, NextDev: isI},
})

func mesiDevLoad(req Request, far string) []Rule {
	return []Rule{
		{Req: req, Who: device, Host: anyMESI, At: anyPlace, Dev: isSEM, Path: prices("hit")},
		{Req: req, Who: device, Host: isEM, At: theirs, Dev: isI, Path: prices(far), NextHost: isS, NextDev: isS},
		{Req: req, Who: device, Host: isS, At: anyPlace, Dev: isI, Path: prices("llc_load"), NextDev: isS},
		{Req: req, Who: device, Host: isI, Dev: isI, Path: prices("dram_load"), NextDev: isE},
	}
}
