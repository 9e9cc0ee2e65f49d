//go:build linux && (amd64 || arm64)

// Package nldev has the formats of NETLINK_RDMA's client RDMA_NL_NLDEV: requests that programs
// such as iproute2's rdma and libibverbs send, and the kernel's answers. It knows no devices.
//
//   - numbers.go: numbers of commands, attributes and flags
//   - message.go: splits a datagram into requests; the header
//   - attributes.go: parses and checks the attributes of a request
//   - build.go: builds attributes
//   - answer.go: messages of an answer, acknowledgements, the end of a dump
//   - device.go: devices, ports, the system, character devices
//   - resource.go: resources: queue pairs, completion queues and so on
//   - counters.go: counters
//
// The answers have the attributes of Linux 7.3, in its order (drivers/infiniband/core/nldev.c).
// Readers skip attributes that they do not know.
//
// Sources: Linux include/uapi/rdma/rdma_netlink.h and include/uapi/linux/netlink.h for the
// numbers, lib/nlattr.c for the checks of attributes and their words, net/netlink/af_netlink.c
// for acknowledgements.
package nldev
