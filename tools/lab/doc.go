//go:build linux && (amd64 || arm64)

// Package lab has two virtual machines that share memory, as two hosts share a CXL pool or a PCIe
// device, with an engine in each. README.md says how to start them by hand. Package
// internal/lab/nodes makes their files, internal/lab starts them, and internal/lab/guest is their first program.
//
//   - vms: a script for each machine, which starts QEMU
//   - build: makes the files for the scripts
//   - raw: a program that uses the memory itself
//   - poster: a program that uses an engine
package lab
