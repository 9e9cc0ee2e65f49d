// Package roce makes packets of RoCEv2 of a trace, for programs that show packets.
//
// Packets of links are what the trace has of them. The work of queue pairs whose peer is on the same device
// never was packets: the device has moved the bytes in memory. For such work this package makes the packets
// that a network would have seen, so that programs such as Wireshark show it:
//
//   - SEND, RDMA WRITE, RDMA READ and atomics on RC, UC, UD and XRC, requests and answers. A long message
//     is divided by the path MTU of its queue pair.
//   - A WQE that failed at the peer is its first packet and a NAK. One whose peer has no receive is its first
//     packet and an RNR NAK, the timer of which is 0, since the trace does not tell it.
//   - All packets of a WQE have the time at which the device has executed it, and the numbers (PSN, MSN)
//     go on from those of the queue pair.
//   - A trace has the payload of a WQE only if that is inline. Other payload is cut off, with all that
//     follows in the packet. A packet that is whole has the right ICRC.
//
// Masked atomics have packets that only nicless knows (packet.MaskedCompareSwap). All work of DC and of raw
// packets has no packets in the specification: it is left out, as is work that concerns no peer.
//
// Links through memory (package fabric/pool) have packets that are longer than those of RoCEv2. They are
// shown as they are, with an ICRC of 0.
//
// Addresses are the GIDs of the queue pair. For one that has none, it is the link-local address that the GUID
// of the device gives. The UDP source port is the one that Linux takes for the two numbers of queue pairs.
//
// # Files
//
//   - maker.go: from events to packets
//   - work.go: a WQE as a message; message.go: a message as packets, and its answers
//   - header.go: IP, UDP, BTH and the rest of a packet
package roce
