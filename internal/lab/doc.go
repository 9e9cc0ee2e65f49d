//go:build linux && (amd64 || arm64)

// Package lab starts virtual machines with Debian's kernel, so that tests can talk to drivers of
// Linux that no ordinary machine has loaded. It needs no root: kernels are fetched by the name of
// their package and unpacked, not installed; QEMU emulates the processor; and the network is a
// cable in a user namespace.
//
//   - apt.go: packages of Debian, unpacked in the user's cache
//   - kernel.go: such a kernel
//   - image.go: that kernel, decompressed
//   - module.go: the modules that a module needs, by what it says itself
//   - files.go: the file system of a machine: programs with their libraries, and modules
//   - cpio.go: the format of that file system, as the kernel reads it
//   - machine.go: a machine, and programs that run in it
//   - order.go: what host and machine say to each other, through a serial port
//
// Package guest is the first program of a machine, which uses package finder; package cable is the cable.
// Two machines that share memory are in the folder lab of this repository.
package lab
