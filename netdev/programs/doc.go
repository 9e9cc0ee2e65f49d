// Package programs runs real programs over the network interfaces of nicless net: ping, iperf3
// and programs of its own, which check every byte. The package has only tests.
//
// The hosts are network namespaces in one user namespace. They have no network but the
// interfaces of a test, so no test needs a privilege, and none leaves anything behind.
//
// A plain go test takes a few seconds. Continuous integration runs all tests, which takes minutes:
//
//	go test ./netdev/programs -programs
//
// This prints a table of speeds, beside those of the kernel's own interfaces:
//
//	go test ./netdev/programs -run TestSpeed -speed -v
//
// Files in reading order: main_test.go (flags, and the programs of this package), process_test.go
// and nodes_test.go (processes in namespaces), bed_test.go (interfaces of nicless), talk_test.go
// (pings and copies between nodes), program_test.go, tcp_test.go, udp_test.go and direct_test.go (programs of
// this package), rows_test.go, life_test.go, refuse_test.go, pick_test.go, names_test.go and
// speed_test.go (the tests).
package programs
