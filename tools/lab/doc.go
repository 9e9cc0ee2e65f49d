//go:build linux && (amd64 || arm64)

// Package lab has two virtual machines that share memory, as two hosts share a CXL pool or a PCIe
// device, with an engine in each. README.md says how to start them by hand. Package
// internal/lab/nodes makes their files, internal/lab starts them, and internal/lab/guest is their first
// program.
//
//   - vms: a script for each machine, which starts QEMU
//   - build: makes the files for the scripts
//   - poster: the program that runs in the machines. Its commands are in exchange (posts to an engine),
//     onlymemory (posts to an engine of which it has only memory) and raw (uses the memory itself)
package lab
