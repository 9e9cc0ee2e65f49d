// Package request serves the requests of clients and servers: control requests, and the methods of
// package nic.
//
// A Client is an object.Client with what its requests need. They run between two steps (object.Device.Do),
// while no shard works.
//
// # Files
//
//   - device.go, hosted.go, probe.go: the device for servers
//   - request.go, client.go, call.go: the types; begin and end of a client; a request
//   - region.go, uar.go, process.go, mr.go: memory and keys
//   - cq.go, resize.go, moderate.go, channel.go, event.go, retract.go: completion queues and events
//   - qp.go, modify.go, peer.go, drain.go: queue pairs, their states, their peers, and their last work
//   - srq.go, xrc.go, dc.go: shared receive queues, XRC, DC
//   - datagram.go, multicast.go: addresses and groups of UD
//   - board.go, audience.go: announcements
//   - port.go: ports and paths
//   - wake.go: how clients wake the device
package request
