package tree

import (
	"os"
	"testing"
)

// The tests run in the root of the tree.
func TestMain(m *testing.M) {
	if err := os.Chdir("../.."); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}
