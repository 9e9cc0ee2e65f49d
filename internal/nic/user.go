package nic

import "errors"

// A User is a program that uses a link: for permission, and for the log.
type User struct {
	UID  uint32
	Name string // what the log calls the program, with its process number and uid
}

// ErrDenied is wrapped in the error for a User who may not use a link.
var ErrDenied = errors.New("permission denied")
