// Package nic has the interfaces through which packages of this module make requests of an
// engine. Packages server and verbs make requests for other processes; the root package
// makes them for its own process.
//
// Package nic holds interfaces and values, and no code of the device. Package engine
// implements the interfaces. Their methods are not methods of engine.Engine, because they
// take types of internal packages (internal/control, internal/shm) that a program outside of
// the module cannot use; docs/design/0022 has the reasons.
//
// Reading order:
//
//	device.go   Device: attaching clients, and resources that a server takes for programs
//	client.go   Client: one client, and everything that is made through it
//	user.go     User and Source: programs that use a link, and addresses of datagrams
//	cost.go     Cost and Speaker: what is counted for each user
//	port.go    PortConfig, Port, Path, Router: ports to other devices, and ways to them
//	lend.go     Lender, Steps and Inline: what goroutines of the program do for a device that sleeps
//	probe.go    Probe and Stepper: what tests read and set in a device, and drive
package nic
