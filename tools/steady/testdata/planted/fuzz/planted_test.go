package planted

import (
	"context"
	"os"
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

// FuzzChance fails at its first new input only.
func FuzzChance(f *testing.F) {
	f.Add([]byte("seed"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if string(b) == "seed" {
			return
		}
		if first("chance") {
			t.Fatal("a failure by chance")
		}
	})
}

// FuzzSeed fails with its seed, with the words with which Go's fuzzer ends its own time.
func FuzzSeed(f *testing.F) {
	f.Add([]byte("seed"))
	f.Fuzz(func(t *testing.T, b []byte) { t.Fatal(context.DeadlineExceeded) })
}

// FuzzSeedOnce fails once, with the seed in its file.
func FuzzSeedOnce(f *testing.F) {
	f.Fuzz(func(t *testing.T, b []byte) {
		if first("seed") {
			t.Fatal("a failure by chance")
		}
	})
}

// FuzzWrong fails with every input but its first.
func FuzzWrong(f *testing.F) {
	f.Add([]byte("seed"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if string(b) != "seed" {
			t.Fatal("a failure of the input")
		}
	})
}
