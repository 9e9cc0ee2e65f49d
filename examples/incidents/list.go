package main

// incidents is sorted by what the device does, as docs/FAULTS.md is.
var incidents = []incident{
	nccl2383, mlx3152, csit3988, // complete
	pegaflow403, mooncake2427, // stall
	mori428,                // doorbell
	thunderbolt71, nbs5790, // rnr
	ucx5199,               // lose-request
	mori655, mooncake4061, // lose-answer
	transferbench239,   // overrun
	spdk1387,           // deregister
	mooncake4062,       // disconnect
	mlx3910,            // kill
	mori384,            // refuse
	mooncake3596,       // port
	nccl394,            // gid
	ucx10658, deepep40, // order
}
