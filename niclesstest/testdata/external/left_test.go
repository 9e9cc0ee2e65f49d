//go:build left

package put

import (
	"testing"
	"testing/synctest"

	"github.com/nicless/nicless/niclesstest"
)

// This test leaves a protection domain, an unpolled completion and an explanation.
func TestLeft(t *testing.T) {
	d := niclesstest.New(t)
	_, _ = d.Client().AllocPD()
	a, _ := d.Pair(niclesstest.PairConfig{})
	a.Post(a.Write(8))
	a.Post(a.Write(5000))
}

// This test waits for a completion that never comes.
func TestNeverComes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, _ := niclesstest.NewWith(t, niclesstest.Config{Clock: niclesstest.Bubble}).Pair(niclesstest.PairConfig{})
		a.Next()
	})
}
