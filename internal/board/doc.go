// Package board is the form in which engines send each other what their clients announce: a list
// of entries, as links carry it. Every engine writes a list of its own; the other engines check it.
//
// A list is empty, or it begins with its version. Numbers are big-endian:
//
//	0  0, 4 bytes
//	4  version, 4 bytes: 2
//
// Version 1 had no such beginning, and its readers refuse a client with the number 0. A sequence of
// entries follows, sorted by client:
//
//	0   client, 4 bytes, not 0
//	4   user, 4 bytes: whose clients may read the entry. 0xffffffff: all may
//	8   bytes of the value, 2 bytes, 1 to 480
//	10  value
//
// The user is a uid of the user namespace around the engine that writes the list. It is a claim of that
// engine, whose readers trust it as they trust the link.
//
// Files:
//
//	board.go  Append, Parse
package board
