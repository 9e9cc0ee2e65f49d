package niclesstest

import (
	"errors"
	"fmt"

	"github.com/nicless/nicless"
)

// PairConfig says what Pair makes. The zero value is right for most tests: two RC queue pairs of the first
// client, each with a CQ of its own and 4096 bytes that the other may read and write.
type PairConfig struct {
	// Memory is how many bytes each end has. Zero means 4096.
	Memory int

	// Access are the rights of the keys. Zero means nicless.FullAccess.
	Access nicless.Access

	// TwoClients gives each end a client of its own, as two programs have. Otherwise the first client of
	// the device has both.
	TwoClients bool

	// Connection says how often and how long each end tries. It is for RC.
	Connection nicless.Connection

	// QP configures both queue pairs: Type, sizes, and what else a test needs. SendCQ is the end's own
	// CQ.
	QP nicless.QPConfig

	// CQ configures both completion queues.
	CQ nicless.CQConfig
}

// Pair makes two queue pairs that are connected or, on UD, activated, with memory and completion queues. It
// fails the test if it cannot. The device closes everything that Pair has made. A test may close it before.
func (d *Device) Pair(cfg PairConfig) (a, b *End) {
	d.t.Helper()
	d.mu.Lock()
	n := len(d.pairs)/2 + 1
	d.mu.Unlock()
	first := d.Client()
	second := first
	if cfg.TwoClients {
		second = d.NewClient()
	}
	a = &End{Name: fmt.Sprintf("a%d", n), Client: first, d: d}
	b = &End{Name: fmt.Sprintf("b%d", n), Client: second, d: d}
	if n == 1 {
		a.Name, b.Name = "a", "b"
	}
	a.Peer, b.Peer = b, a
	for _, e := range []*End{a, b} {
		if err := e.make(cfg); err != nil {
			d.t.Fatalf("niclesstest: pair: %v", err)
		}
	}
	if err := connect(a, b, cfg); err != nil {
		d.t.Fatalf("niclesstest: pair: %v", err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.pairs = append(d.pairs, a, b)
	return a, b
}

// make makes the objects of an end.
func (e *End) make(cfg PairConfig) (err error) {
	size, access := cfg.Memory, cfg.Access
	if size == 0 {
		size = 4096
	}
	if access == 0 {
		access = nicless.FullAccess
	}
	e.PD, err = e.Client.AllocPD()
	if err == nil {
		e.CQ, err = e.Client.CreateCQ(cfg.CQ)
	}
	if err == nil {
		e.MR, err = e.PD.RegisterMemory(size, access)
	}
	if err == nil {
		cfg.QP.SendCQ = e.CQ
		e.QP, err = e.PD.CreateQP(cfg.QP)
	}
	return err
}

func connect(a, b *End, cfg PairConfig) (err error) {
	if cfg.QP.Type != nicless.UD {
		return nicless.Pair(a.QP, b.QP, cfg.Connection)
	}
	for _, e := range []*End{a, b} {
		if err := e.QP.Activate(); err != nil {
			return err
		}
	}
	for _, e := range []*End{a, b} {
		e.to, err = e.QP.AddressOf(e.Peer.QP.Descriptor())
		if err != nil {
			return err
		}
	}
	return nil
}

// closePairs closes what Pair has made: first all queue pairs, and then what they use.
func closePairs(ends []*End) (err error) {
	each := func(f func(e *End) error) {
		for _, e := range ends {
			if bad := f(e); bad != nil && !errors.Is(bad, nicless.ErrClosed) {
				err = errors.Join(err, bad)
			}
		}
	}
	each(func(e *End) error { return e.QP.Close() })
	each(func(e *End) error { return e.CQ.Close() })
	each(func(e *End) error { return e.MR.Close() })
	each(func(e *End) error { return e.PD.Close() })
	return err
}
