// Package planted has tests that fail in all ways that package steady has to tell.
package planted

import (
	"os"
	"syscall"
	"testing"
)

// first returns true once in each directory that STEADY_PLANTED names.
func first(name string) bool {
	f, err := os.OpenFile(os.Getenv("STEADY_PLANTED")+"/"+name, os.O_CREATE|os.O_EXCL, 0o600)
	if err == nil {
		f.Close()
	}
	return err == nil
}

func TestSteady(t *testing.T) {}

func TestSkips(t *testing.T) { t.Skip("as if a program were missing") }

func TestFirstFails(t *testing.T) {
	t.Run("part", func(t *testing.T) {
		if first("fails") {
			t.Fatal("a planted failure")
		}
	})
}

// In its second run, so that the failure comes in the first, in any order.
func TestFirstIsKilled(t *testing.T) {
	if !first("once") && first("twice") {
		syscall.Kill(os.Getpid(), syscall.SIGKILL)
	}
}

// In its third run, after those in which the others fail.
func TestFirstExits(t *testing.T) {
	if !first("begun") && !first("again") && first("exits") {
		os.Exit(0)
	}
}
