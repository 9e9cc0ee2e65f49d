package torture

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// ledgerOf returns a ledger with n work requests. Those whose numbers are in silent are unsignaled.
func ledgerOf(n int, silent ...int) *Ledger {
	l := NewLedger(16)
	for i := range n {
		signaled := true
		for _, s := range silent {
			signaled = signaled && s != i
		}
		l.Post(signaled)
	}
	return l
}

func TestLedgerOfGoodWork(t *testing.T) {
	l := ledgerOf(5, 1, 2)
	first, ok := l.Complete(0, Done)
	require.Equal(t, []any{uint64(0), true}, []any{first, ok})
	first, ok = l.Complete(3, Done) // ends 1 and 2 too
	require.Equal(t, []any{uint64(1), true}, []any{first, ok})
	require.Equal(t, 1, l.Outstanding())
	l.Complete(4, Failed)
	require.Equal(t, uint64(5), l.Post(true))
	l.Complete(5, Flushed)
	l.End()
	require.Equal(t, Wrong{}, l.Wrong)
}

func TestLedgerFindsWhatIsWrong(t *testing.T) {
	for name, row := range map[string]struct {
		l    *Ledger
		do   func(l *Ledger)
		want Wrong
	}{
		"lost":                        {ledgerOf(2), func(l *Ledger) { l.Complete(1, Done) }, Wrong{Lost: 1}},
		"never":                       {ledgerOf(3, 2), func(l *Ledger) { l.End() }, Wrong{Lost: 2}},
		"twice":                       {ledgerOf(2), func(l *Ledger) { l.Complete(0, Done); l.Complete(0, Done) }, Wrong{Duplicated: 1}},
		"not posted":                  {ledgerOf(2), func(l *Ledger) { l.Complete(2, Done) }, Wrong{Duplicated: 1}},
		"exchanged":                   {ledgerOf(2), func(l *Ledger) { l.Complete(1, Done); l.Complete(0, Done) }, Wrong{Reordered: 1}},
		"silent, but heard":           {ledgerOf(2, 0), func(l *Ledger) { l.Complete(0, Done) }, Wrong{Duplicated: 1}},
		"executed after a failure":    {ledgerOf(2), func(l *Ledger) { l.Complete(0, Failed); l.Complete(1, Done) }, Wrong{Reordered: 1}},
		"failed after a failure":      {ledgerOf(2), func(l *Ledger) { l.Complete(0, Failed); l.Complete(1, Failed) }, Wrong{Reordered: 1}},
		"silent and not flushed":      {ledgerOf(3, 1), func(l *Ledger) { l.Complete(0, Failed); l.Complete(2, Flushed) }, Wrong{Lost: 1}},
		"silent and not flushed last": {ledgerOf(2, 1), func(l *Ledger) { l.Complete(0, Failed); l.End() }, Wrong{Lost: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			row.do(row.l)
			require.Equal(t, row.want, row.l.Wrong)
		})
	}
}

func TestLedgerIsFull(t *testing.T) {
	l := ledgerOf(16)
	require.Zero(t, l.Room())
	require.Panics(t, func() { l.Post(true) })
	l.Complete(0, Done)
	require.Equal(t, uint64(16), l.Post(true))
	l.Abandon()
	require.Equal(t, 16, l.Room())
	require.Equal(t, Wrong{}, l.Wrong)
}
