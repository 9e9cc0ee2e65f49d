package put

import (
	"errors"
	"testing"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/niclesstest"
)

func TestPut(t *testing.T) {
	a, b := niclesstest.New(t).Pair(niclesstest.PairConfig{TwoClients: true})
	copy(a.MR.Bytes(), "hello")
	if err := Put(t.Context(), a.QP, a.CQ, a.MR, 5, b.MR.Addr(), b.MR.RKey()); err != nil {
		t.Fatal(err)
	}
	if got := string(b.MR.Bytes()[:5]); got != "hello" {
		t.Fatalf("%q arrived", got)
	}
}

func TestPutBeyondTheBuffer(t *testing.T) {
	d := niclesstest.New(t)
	d.Expect("key-range")
	a, b := d.Pair(niclesstest.PairConfig{Memory: 4096})
	err := Put(t.Context(), a.QP, a.CQ, a.MR, 8, b.MR.Addr()+4092, b.MR.RKey())
	if !errors.Is(err, cqe.RemoteAccess) {
		t.Fatal(err)
	}
}
