//go:build linux && (amd64 || arm64)

package web

import (
	"testing"

	"github.com/nicless/nicless/state"
	"github.com/stretchr/testify/require"
)

// looked returns the look at a snapshot whose queues have each done their WQEs in the second before.
func looked(s *state.Snapshot) *look {
	old := &state.Snapshot{Queues: append([]state.Queue{}, s.Queues...)}
	for i := range old.Queues {
		old.Queues[i].Time, old.Queues[i].WQEs = 0, 0
	}
	return &look{now: s, change: s.Since(old)}
}

func numbersOf(rows []row) (list []uint32) {
	for _, r := range rows {
		list = append(list, r.Number)
	}
	return list
}

func TestRows(t *testing.T) {
	s := manyQueues(10_000)
	s.Queues[6].Failed = true    // 7
	s.Queues[8].Wait = "no recv" // 9
	s.Queues[3].State = "ERR"    // 4
	for name, c := range map[string]struct {
		view  view
		found int
		want  []uint32
	}{
		"trouble first, then the busiest": {view{Rows: 5}, 10_000, []uint32{7, 4, 9, 10_000, 9999}},
		"by number":                       {view{Sort: "queue", Rows: 2}, 10_000, []uint32{1, 2}},
		"by number, down":                 {view{Sort: "queue", Down: true, Rows: 2}, 10_000, []uint32{10_000, 9999}},
		"the busiest":                     {view{Sort: "wqes", Down: true, Rows: 2}, 10_000, []uint32{10_000, 9999}},
		"equal ones by number":            {view{Sort: "type", Down: true, Rows: 2}, 10_000, []uint32{1, 2}},
		"from the middle":                 {view{Sort: "queue", From: 5000, Rows: 1}, 10_000, []uint32{5001}},
		"the last ones":                   {view{Sort: "queue", From: 9999, Rows: 5}, 10_000, []uint32{10_000}},
		"beyond the last":                 {view{Sort: "queue", From: 1 << 20, Rows: 5}, 10_000, nil},
		"by program":                      {view{Sort: "program", Down: true, Rows: 1}, 10_000, []uint32{2}},
		"a word":                          {view{Filter: "0x00271", Sort: "queue", Rows: 3}, 1, []uint32{10_000}},
		"words, in any case":              {view{Filter: " ODD  err", Rows: 3}, 1, []uint32{4}},
		"a pid":                           {view{Filter: "99101", Sort: "queue", Rows: 1}, 5000, []uint32{2}},
		"why it waits":                    {view{Filter: "no rts recv", Rows: 3}, 1, []uint32{9}},
		"nothing":                         {view{Filter: "nosuch", Rows: 3}, 0, nil},
	} {
		t.Run(name, func(t *testing.T) {
			rows, found := rowsOf(looked(s), &c.view)
			require.Equal(t, c.want, numbersOf(rows))
			require.Equal(t, c.found, found)
		})
	}
	rows, _ := rowsOf(looked(s), &view{Rows: 1 << 20})
	require.Len(t, rows, mostRows)
	require.EqualValues(t, 7, rows[0].Rate.WQEs)
	require.Equal(t, 99100, rows[0].PID)
}

// Each column has an order, also while clients that have gone leave their queues nameless.
func TestRowsWithoutClients(t *testing.T) {
	s := manyQueues(3)
	s.Clients = nil
	for sort := range orders {
		rows, found := rowsOf(looked(s), &view{Sort: sort, Rows: 3})
		require.Equal(t, 3, found)
		require.Empty(t, rows[0].Program)
	}
}

// Clients are in the order of their rates, also if these differ by less than 1 a second.
func TestClientsInOrder(t *testing.T) {
	l := &look{now: &state.Snapshot{}, change: &state.Change{Clients: map[uint32]state.Rate{}}}
	for i, rate := range []float64{0.2, 0.9, 0, 1.5, 0.7, 2.1, 0.9} {
		number := uint32(i + 1)
		l.now.Clients = append(l.now.Clients, state.Client{Number: number})
		l.change.Clients[number] = state.Rate{WQEs: rate}
	}
	var got []uint32
	for _, c := range clientsOf(l) {
		got = append(got, c.Number)
	}
	require.Equal(t, []uint32{6, 4, 2, 7, 5, 1, 3}, got)
}
