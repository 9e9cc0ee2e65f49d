// Package tun gives a program a TUN interface of Linux: IP packets that the kernel sends through
// the interface are read by the program, and packets that the program writes are received by
// the kernel. No packet is segmented and no checksum is computed on the way if the kernel takes
// offloads: a packet may be as large as 65535 bytes at any MTU, and a header of [HeaderSize] bytes
// before it (struct virtio_net_hdr) says what the kernel that receives it has to know.
//
// Files in reading order:
//
//	config.go    Config, Offloads, Counters, and what a Config must be
//	open.go      Open: the descriptor, the offloads, and the interface behind them
//	address.go   MTU, addresses and state of the interface, by netlink
//	device.go    Device: Read, Write, Counters, Close
//	explain.go   what the kernel's errors mean, in a sentence
//	vnet.go      Header, and the addresses of a packet
//	check.go     Check, which checks a packet that a peer has sent, before the kernel sees it: the length of
//	             the packet, its IP header, and where its checksum is
//	segments.go  what Check demands of a packet that is to be segmented: its protocol, and the number and
//	             the length of its segments
//
// One packet through the package: Read in one host puts header and packet into one buffer, which
// travels to a peer. The peer copies the first bytes, checks the copy with Check, and gives Write
// the copy and the rest. The kernel reads each of them once.
package tun
