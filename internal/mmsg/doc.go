// Package mmsg sends and receives several datagrams with one system call (sendmmsg and
// recvmmsg), without allocation. The caller keeps an array of messages, with all that they
// point to, and uses it again and again.
//
// Ancillary data is written and read by [AppendInt] and [Control].
package mmsg
