// Package links is the table of an engine's links and of the routes over them. It opens links by
// their names (pool:PATH, roce:ADDRESS), and it opens RoCE by itself when a program
// connects a queue pair to an address that is not of this engine, or waits for such connections.
//
// A Table implements nic.Router for the engine and verbs.Fabric for the server of verbs
// programs. The engine's thread may call Route; so Route takes no lock and reads one snapshot.
//
// Files, in reading order:
//
//   - options.go: what --link means, and whether it is possible
//   - users.go: for whom RoCE opens by itself
//   - table.go: which links are opened and closed, and with which peers RoCE may exchange packets
//   - route.go: which link leads to an address, and from which own address (Own, choose)
//   - board.go: gives the links what clients announce; who may read it is decided in the engine
//   - hold.go: whether RoCE opens on a local address for a user (may), and when the address is closed
//   - ports.go: which InfiniBand ports links lead to
//   - manage.go: whether a packet for queue pair 1 is taken from a peer, and how one is sent
//   - message.go: whether a message of a client goes to another engine, and one from there into a box
//   - summary.go: whether a question of another engine is answered, and how often
//   - published.go: what this engine writes into pools for those who look, and what others have written
//   - query.go: asks all other engines what they do, and whether an answer counts
//   - report.go: what nicless links prints; why RoCE is open
package links
