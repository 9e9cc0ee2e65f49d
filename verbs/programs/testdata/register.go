//go:build ignore

// register registers memory with the first RDMA device, by way of libibverbs.
package main

// #cgo LDFLAGS: -libverbs
// #include <infiniband/verbs.h>
// #include <stdlib.h>
//
// // ibv_reg_mr is a macro.
// static struct ibv_mr *reg(struct ibv_pd *pd, void *at, size_t n) {
// 	return ibv_reg_mr(pd, at, n, IBV_ACCESS_LOCAL_WRITE);
// }
import "C"

import (
	"fmt"
	"os"
)

func main() {
	var n C.int
	list := C.ibv_get_device_list(&n)
	if list == nil || n == 0 {
		fmt.Fprintln(os.Stderr, "no RDMA device")
		os.Exit(1)
	}
	defer C.ibv_free_device_list(list)
	device, err := C.ibv_open_device(*list)
	if device == nil {
		fmt.Fprintln(os.Stderr, "open:", err)
		os.Exit(1)
	}
	defer C.ibv_close_device(device)
	pd := C.ibv_alloc_pd(device)
	const size = 1 << 20
	mr, err := C.reg(pd, C.malloc(size), size)
	if mr == nil {
		fmt.Fprintln(os.Stderr, "register:", err)
		os.Exit(1)
	}
	fmt.Printf("%s: %d bytes registered\n", C.GoString(C.ibv_get_device_name(*list)), mr.length)
	C.ibv_dereg_mr(mr)
	C.ibv_dealloc_pd(pd)
}
