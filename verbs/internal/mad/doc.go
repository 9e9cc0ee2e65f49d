// Package mad has the formats of management datagrams (MADs): the header that a program writes before one
// to /dev/infiniband/umadN, the common header, and the attributes of the classes that nicless answers. It
// decides nothing and keeps nothing.
//
// # Terms
//
// A class is what a datagram is about: the subnet (SMP), performance counters (PM), or the records of subnet
// administration (SA). A method is what it asks: Get, Set, or the response to one. An attribute is what it
// carries, and its modifier says of which port or block.
//
// # Files
//
//   - user.go: struct ib_user_mad_hdr and the arguments of the ioctls, little-endian with big-endian fields
//   - header.go: the common header, classes, methods and status
//   - smp.go: attributes of the subnet: NodeInfo, PortInfo, SwitchInfo
//   - pm.go: counters
//   - sa.go: records, and the headers before them
//
// Integers are big-endian unless a comment says otherwise, and bytes that a type does not name are 0.
//
// # Sources
//
// InfiniBand Architecture Specification, volume 1, chapters 13 to 16, and Linux
// include/uapi/rdma/ib_user_mad.h.
package mad
