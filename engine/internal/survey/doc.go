//go:build linux && (amd64 || arm64)

// Package survey reads the state of a device's objects for those who look at it (package state): between two
// steps, a few objects at a time, so that no step waits for all of them.
//
// Reading order:
//
//   - sight.go: whose objects a user may see
//   - survey.go: a survey of all objects, in portions
//   - thread.go, client.go, queue.go: one object
//   - ring.go: entries of a ring
package survey
