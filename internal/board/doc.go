// Package board is the form in which engines tell each other what their clients announce: a list
// of entries, as links carry it. Every engine writes a list of its own; the other engines judge it.
//
// A list is a sequence of entries, sorted by client. The numbers of an entry are big-endian:
//
//	0  client, 4 bytes, not 0
//	4  bytes of the value, 2 bytes, 1 to 480
//	6  value
//
// Files:
//
//	board.go  Append, Parse
package board
