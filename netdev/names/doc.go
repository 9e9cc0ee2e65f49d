// Package names answers queries of DNS for the names of a network: NAME.nicless for the addresses of the
// host of that name, and the names of addresses. It is authoritative for these and for nothing else: it
// never asks another server.
//
// Terms: a zone is the network's names and addresses, which change; a host is a name in it, one label.
//
// A query comes from this host, or from those who send through the network's interface; the kernel drops
// others before they are read. It is parsed by the package dnsmessage of
// golang.org/x/net, from a copy of at most [MaxQuery] bytes, and every answer has at most 512 bytes, so that
// none is ever cut. An answer is computed from the zone alone, without waiting, by one goroutine for each
// address and one for each of at most [MaxConnections] connections.
//
// Source: RFC 1035 (messages), RFC 3596 (AAAA), RFC 6891 (EDNS), RFC 2308 (negative answers), RFC 7766 (TCP).
//
// Files in reading order:
//
//   - answer.go: which code an answer has (decide), and what is in it
//   - reverse.go: which address a name of in-addr.arpa or ip6.arpa is
//   - server.go: at which addresses queries are taken (Listen); how many connections
//   - through.go: by which interface (filtered)
package names
