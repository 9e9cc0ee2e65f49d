//go:build linux && (amd64 || arm64)

package inject

// A Command says what a rule wants to be done between two steps. One field is set.
type Command struct {
	Key    uint32 // this key is deregistered
	Client uint32 // the client of this number dies
	QP     uint32 // a ring of this queue pair cannot be read, as the rule says that acts on it
}
