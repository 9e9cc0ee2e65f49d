//go:build linux && (amd64 || arm64)

package inject

// An Order says what a rule wants to be done between two steps. One field is set.
type Order struct {
	Key    uint32 // this key is deregistered
	Client uint32 // the client of this number dies
}
