// Package nic is the client side of an engine, as the packages of this module see
// it that make requests of one: server and verbs for other processes, and the root
// package for its own.
//
// It holds interfaces and values, and no code of the device. Package engine implements
// them. They are not methods of engine.Engine because they name requests and memory of
// this module's own (internal/control, internal/shm), which a program outside of the
// module can do nothing with; docs/design/0022 has the reasons.
//
// Reading order:
//
//	device.go   Device: attaching clients, and what a server takes for its programs
//	client.go   Client: one client, and everything that is made through it
//	cost.go     Cost and Speaker: what is counted for each user
//	probe.go    Probe: what tests of servers look at
package nic
