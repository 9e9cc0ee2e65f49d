package planted

import (
	"os"
	"testing"
)

// FuzzChance fails at its first new input only.
func FuzzChance(f *testing.F) {
	f.Add([]byte("seed"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if string(b) == "seed" {
			return
		}
		if f, err := os.OpenFile(os.Getenv("STEADY_PLANTED")+"/chance", os.O_CREATE|os.O_EXCL, 0o600); err == nil {
			f.Close()
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
