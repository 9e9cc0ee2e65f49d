package main

// incidents is sorted by what the device does, as docs/FAULTS.md is.
var incidents = []incident{
	nccl2383, mlx3152, csit3988, // complete
	pegaflow403, mooncake2427, // stall
}
