// Package links is the table of an engine's links and of the routes over them. It opens links by
// their names (pool:PATH,node=N, roce:ADDRESS), and it opens RoCE by itself when a program
// connects a queue pair to an address that is not of this engine, or waits for such connections.
//
// A Table implements nic.Router for the engine and verbs.Fabric for the server of verbs
// programs. The engine's thread may call Route; so Route takes no lock and reads one snapshot.
//
// Files, in reading order:
//
//	options.go  what --link says
//	users.go    for whom RoCE opens by itself
//	table.go    Open, Close
//	route.go    from addresses to paths
//	board.go    what clients announce, given to the links
//	hold.go     local addresses that are in use; RoCE opens and closes with them
//	manage.go   packets for queue pair 1
//	report.go   what nicless links prints
package links
