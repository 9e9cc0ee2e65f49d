// Package tun gives a program a TUN interface of Linux: IP packets that the kernel sends through
// the interface are read by the program, and packets that the program writes are received by
// the kernel. No packet is segmented and no checksum is computed on the way if the kernel takes
// offloads: a packet may be as large as 65535 bytes at any MTU, and a header of [HeaderSize] bytes
// before it (struct virtio_net_hdr) says what the kernel that receives it has to know.
//
// Files in reading order:
//
//   - config.go: whether an interface can be as the Config says
//   - open.go: whether an interface is made or taken, and which offloads the kernel takes
//   - address.go: which settings are missing: MTU, addresses, state; whether an address is taken
//   - device.go: which error Read and Write return; whether the interface was deleted
//   - watch.go: when the addresses of the interface have changed
//   - explain.go: the sentence for an error of the kernel, and the command that mends it
//   - vnet.go: the fields of a header; the addresses of a packet
//   - check.go: whether a peer's packet may go to the kernel: its length, IP header, and place of the
//     checksum
//   - segments.go: whether a packet may be segmented: its protocol, the number and length of its segments
//   - tun_other.go: refuses on other systems
//
// One packet through the package: Read in one host puts header and packet into one buffer, which
// travels to a peer. The peer copies the first bytes, checks the copy with Check, and gives Write
// the copy and the rest. The kernel reads each of them once.
package tun
