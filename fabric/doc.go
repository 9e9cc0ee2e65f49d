// Package fabric is what joins engines: links and the routes over them.
//
// Terms: a link leads from this engine to one or more others, its peers. Each kind of link has a
// package: fabric/pool is for memory that several hosts share, fabric/roce for IP networks,
// fabric/ucx for what UCX finds. Package fabric/links has the links of an engine, fabric/auth
// their keys.
//
// # Files
//
//	link.go  Link, which all kinds of links implement, and what is known of a peer
//	log.go   a log that peers and strangers cannot fill
package fabric
