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

// A Stepper has the methods that drive a device that no thread runs. The engine's Device implements it, for a
// device with one shard. The clock that all timers and the events of watches go by is then the caller's: it
// stands still between two calls of Hold. The time stamps of completions are still those of the machine.
type Stepper interface {
	// Hold sets the device clock, in cycles. It must not go back. Before the first Hold the clock runs.
	Hold(clock uint64)

	// StepAll steps the device until there is nothing to do at this time, and publishes the status
	// pages. It returns how much was done, and in how many cycles the first timer runs out: the largest
	// number if none runs. Before it looks for work, it announces on the status pages of all clients
	// that the device sleeps, by the number sleep, which is not 0. A client that posts later has then
	// something to wake.
	StepAll(sleep uint64) (done int, next uint64)
}
