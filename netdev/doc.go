//go:build linux && (amd64 || arm64)

// Package netdev is a network interface over the fabric: IP packets travel in messages between queue
// pairs, or stay in memory that two interfaces share while a message says where they are.
//
// Terms: an interface is one end, with a Device of the kernel's and a client of an engine. A peer is
// another interface of the same engine, or of an engine to which a pool or UCX leads. A life of an
// interface is from its start to its end. A session is one connection of two queue pairs; the first packet
// opens it, and it ends when there was none for a minute.
//
// # Peers
//
// Interfaces find each other by announcements (nicless.Context.Announce). An announcement has the
// interface's addresses, and the name under which all interfaces listen. The one that has a packet dials
// the other (nicless.Context.DialClient). So the network needs no other network, and no broadcasts: a packet
// goes to the peer that has announced its destination. The kernel gets an ICMP error if there is none.
//
// An interface has one RC queue pair for each session, one SRQ, and a CQ each for receives and for sends.
// Only receives cause events: the completions of sends are polled when their buffers are needed.
//
// # Packets
//
// Before each packet is a virtio header. It lets the kernel leave segmentation and checksums to the
// receiver, whose kernel does not need them either: so a packet of TCP has up to 64 KiB, whatever the
// MTU is.
//
//   - Without shared slots the kernel writes the packet into a registered buffer, and the interface sends
//     the buffer. The engine copies the packet into a receive of the peer's SRQ, where the peer's kernel
//     reads it.
//   - With shared slots the kernel writes the packet into a slot, and a message of 16 bytes names the slot.
//     The peer's kernel reads the slot. The packet is not copied elsewhere. Short packets are sent as
//     without slots.
//
// An interface that has no free buffer or slot does not read from the kernel. The kernel's queue becomes
// full then, and senders wait. A peer may hold three quarters of the buffers, and less if other peers hold
// many: peer.full says how much less. If a peer takes nothing for 100 ms, or little for longer, packets for
// this peer are dropped until it takes some, so that the other peers do not wait.
//
// # Trust
//
// A client that can announce can take any address that is free or picked, and any place among the
// MaxPeers. An announcement is checked when it is new, and when it changes. An interface accepts a packet
// only from the addresses that its sender has announced, only to its own addresses, and only if the virtio
// header and the packet's headers fit (tun.Check). It copies these headers first, because those in slots
// can change. The rest of a packet is as trustworthy as on any network, and the kernel treats it so. Shared
// slots can be read and written by all who map them: do not share them with those who may not read all
// packets.
//
// # Threads
//
// Three goroutines: send.go reads the device, receive.go takes completions and keeps the sessions, and
// watch in interface.go waits for news of the fabric. Comments of the fields of Interface and peer
// name their owners. peer.mu guards the fields that the first two share.
//
// # Files
//
//   - interface.go: whether an interface may open: its addresses and slots are not taken (unclaimed)
//   - pick.go: which addresses an interface picks (giveWay), and when it has them (Pick)
//   - claim.go: which of two interfaces keeps an address (before)
//   - host.go: whether a host's name is right
//   - addresses.go: whether the addresses of the interface may change (SetAddresses)
//   - announce.go: whether the bytes of an announcement are right; how they are written
//   - message.go: whether the head of a message is right; how it is written
//   - peers.go: which announcements are of peers, and why one cannot be a peer (checkPeer)
//   - kept.go: whether an address is another's, which announces something else at the same time
//   - session.go: whether a peer is up (step), and whether its slots are used: signature and count (begin)
//   - calls.go: whether the dial of a peer is answered (answer)
//   - quiet.go: when sessions end, and for which others (sweep, room, relieve)
//   - waits.go: whether a packet waits for a session (putAside)
//   - peer.go: whether a peer may hold one more buffer or slot (full); when its slots are free again
//   - send.go: which peer a packet goes to (route); for a short packet, a buffer in place of a slot
//   - receive.go: whether a peer's message is taken and given to the kernel, or refused
//   - linger.go: how long polling goes on before sleeping
//   - buffers.go: where a buffer is in registered memory
//   - memory.go: what --slots says; maps the memory
//   - slots.go: reads and writes slots and signatures; whether slots are used at all: session.go
//   - toolong.go: whether a packet is too long for its peer
//   - answerable.go: whether a packet may be answered by an ICMP error
//   - unreachable.go: by which error a packet without a peer, or too long for it, is answered, and how often
//   - stats.go: counts; decides nothing
package netdev
