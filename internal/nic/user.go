package nic

import "errors"

// A User is a program that uses a link: for permission, and for the log.
type User struct {
	UID  uint32
	Name string // what the log calls the program, with its process number and uid
}

// ErrDenied is wrapped in the error for a User who may not use a link.
var ErrDenied = errors.New("permission denied")

// A Source is an address of this device's host from which a client sends datagrams, and at which it
// takes those that come over links.
type Source struct {
	GID     [16]byte // zero: the datagrams have no GRH, which is possible on InfiniBand
	Network bool     // whether it takes datagrams over RoCE too, not only those over pools and UCX
}

// MaxSources is the most sources that a client has.
const MaxSources = 2 * MaxGIDs
