// Package rendezvous has the forms in which programs find each other by names and agree on a connection.
//
// A program that listens under a name appends it to its announcement, with the number of its box (Names). One
// that dials the name sends a Dial to that box, by way of the engines, and gets an Accept or a Reject in its
// own; it answers an Accept by Ready, and gives up by Cancel (Message). Between engines a message is one
// management datagram of a class for vendors (Datagram).
//
//	dialler                             listener
//	   |---- Dial: my queue pair ----------->|
//	   |<--- Hold ---------------------------|  if the program takes its time
//	   |                                     |  connects its queue pair
//	   |<--- Accept: my queue pair ----------|
//	   |  connects its queue pair            |
//	   |---- Ready ------------------------->|
//
// Each message is sent again until its answer comes: Dial until Accept or Reject, Accept until Ready or
// Cancel.
//
// All that is parsed here was written by others, and is checked.
//
// Files:
//
//	names.go     names in an announcement
//	message.go   what dialler and listener say
//	datagram.go  a message on a link
package rendezvous
