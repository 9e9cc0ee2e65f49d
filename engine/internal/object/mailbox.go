//go:build linux && (amd64 || arm64)

package object

import "github.com/nicless/nicless/engine/internal/mailbox"

// Do runs f between two steps and returns when f has returned. While the engine sleeps or
// is not run, f runs on the caller's goroutine; during that time the caller must not let
// another goroutine step the engine. Do is safe for concurrent use, but f must not call it.
func (e *Device) Do(f func()) { e.DoWith(mailbox.MakesWork, f) }

// DoWith is Do for a function whose effect the caller knows.
func (e *Device) DoWith(effect mailbox.Effect, f func()) {
	e.Mail.Do(effect, func() { e.Between(f) })
}

// Between runs f while no shard works. It is for the engine's thread, between two steps.
func (e *Device) Between(f func()) {
	e.pause()
	defer e.unpause()
	f()
}
