// Package rack says how many cache lines the nodes of a pool read and write (docs/design/0089), by what they
// do it for: the idle nodes of a rack, nodes for which something happens, engines that look at their rings,
// and packets.
//
// Terms: a node is an engine that uses the pool. A line is 64 bytes. The pool is not coherent: each look at a
// line reads it from the pool again, also a line that the node has written itself, and each change is written
// to the pool at once.
//
// The package imports nothing of this module. TestPriceAtScale of package fabric/pool counts what the code of
// up to 1,000 nodes reads and writes, and compares it with this package, so the two cannot drift apart.
//
// Left out: nodes that come, die or open rings, and their larger rings. They read a table of pairs or
// a description once for each change. Acknowledgements and other packets of the transport are packets.
//
// Files, in reading order:
//
//	rack.go    a rack, and what one of its nodes does in a second
//	packet.go  what a packet costs
package rack
