// Package fabric is what joins engines: links and the routes over them.
//
// Terms: a link leads from this engine to one or more others, its peers. A carrier is a kind of
// link, with a package of its own: fabric/pool is for memory that several hosts share.
package fabric
