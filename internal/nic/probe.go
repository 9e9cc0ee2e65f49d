package nic

// A Probe has the methods with which tests of servers read and set the state of a device. The
// engine's Device implements it.
type Probe interface {
	// Bound sets how much of some resources there is for all users together.
	Bound(Bounds)

	// Held returns what the device holds for all its clients at present.
	Held() Holdings

	// NextSpan begins another span of the budget for lines in the log.
	NextSpan()

	// StickClosers occupies all goroutines that close connections of a user, until
	// release is called.
	StickClosers(uid uint32) (release func())
}

// Bounds are totals of resources. A field that is zero leaves its total unchanged.
type Bounds struct {
	Descriptors, Connections, Addresses, Unread int

	Subuid, Passwd string // paths of files that are read in place of /etc/subuid and /etc/passwd
}

// Holdings are what a device holds for its clients.
type Holdings struct {
	Cost    Cost     // counted for all users
	Other   bool     // some other resource is counted for a user
	Clients []string // names of the clients in the log
	Objects int      // queues and keys of all clients
	Closing int      // connections that wait to be closed
}
