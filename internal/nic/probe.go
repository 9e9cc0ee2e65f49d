package nic

// A Probe is what tests of servers look at and change in a device. The engine's Device
// is one.
type Probe interface {
	// Bound sets what there is of some resources for all users together.
	Bound(Bounds)

	// Held returns what the device has for all its clients now.
	Held() Holdings

	// NextSpan begins another span of the budget for lines in the log.
	NextSpan()

	// StickClosers occupies all goroutines that close connections of a user, until
	// release is called.
	StickClosers(uid uint32) (release func())
}

// Bounds are totals of resources. Zero leaves a resource as it is.
type Bounds struct {
	Descriptors, Connections, Addresses, Unread int

	Subuid, Passwd string // files in place of /etc/subuid and /etc/passwd
}

// Holdings are what a device has for its clients.
type Holdings struct {
	Cost    Cost     // counted for all users
	Other   bool     // some other resource is counted for a user
	Clients []string // names of the clients, as the log has them
	Objects int      // queues and keys of all clients
	Closing int      // connections that wait to be closed
}
