// Package paste reads logs and dumps as people paste them, and finds the CQEs, WQEs and errors
// of mlx5 queues in them.
//
// A [Reader] takes any stream of text: a whole log of the kernel, the output of a program, a
// hexadecimal dump of a debugger. It yields an [Item] for each object or error that it finds,
// and skips everything else. Time stamps, prefixes of log lines, offsets, columns of
// characters, colours and marks of quoted mail are removed. Its memory is bounded,
// whatever the length of the stream.
//
// It knows the lines of the kernel's mlx5 drivers, libmlx5, UCX, NVSHMEM, DOCA GPUNetIO,
// NCCL, DPDK, libxlio, the tests and examples of rdma-core, perftest, libfabric and this
// project, and the dumps of xxd, hexdump, od, gdb, lldb and tcpdump. The tests name the
// source of each shape.
//
// # Byte order
//
// Bytes printed one by one are in memory order. Words of 2, 4 or 8 bytes may be in memory order
// (xxd, libmlx5) or in the order of a little-endian host (gdb, hexdump). The order in which
// the bytes make sense is taken, and the item says so if that was not the usual one.
//
// # Suspicions
//
// [Item.Suspicions] names the fields that cannot be right, with codes of docs/EXPLANATIONS.md.
// A dump shows no keys and no queues, so a dump without a suspicion may still fail.
//
// The files, in reading order: reader.go, line.go, row.go, blob.go, base.go, order.go, score.go,
// unclear.go, item.go, suspect.go.
package paste
