//go:build left

package put

import (
	"testing"

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
