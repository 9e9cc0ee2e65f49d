//go:build linux && (amd64 || arm64)

package links

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/nicless/nicless/fabric"
	"github.com/nicless/nicless/internal/summary"
	"github.com/nicless/nicless/state"
	"github.com/stretchr/testify/require"
)

// A writtenLink is a pool without rings, whose nodes have written summaries.
type writtenLink struct {
	testLink
	nodes  int
	values map[uint64]string
	own    func() string
}

func (l *writtenLink) SetSummary(f func() string) { l.own = f }

func (l *writtenLink) Summaries(context.Context, time.Duration) map[uint64]string { return l.values }

func (l *writtenLink) Peers() (list []fabric.Peer) {
	for i := range l.nodes {
		list = append(list, fabric.Peer{Name: fmt.Sprint("node ", i), GUID: uint64(1000 + i), Up: true})
	}
	return list
}

// All nodes of a pool are known without rings. Those that tell programs have too much to write: some of them
// are asked. Bytes that are no summary cost the row of their node only.
func TestSurveyOfAPool(t *testing.T) {
	const nodes = 1000
	l := &writtenLink{testLink: testLink{name: "pool"}, nodes: nodes, values: make(map[uint64]string)}
	for i := range nodes {
		s := &state.Summary{Queues: uint32(i)}
		if i < 20 {
			s.Disclosed, s.Programs = true, make([]state.Program, 3)
		}
		l.values[uint64(1000+i)] = summary.Put(s, 1, 0, 0)
	}
	l.values[1500] = summary.Silent(0)
	l.values[1501] = "\x02\x01 no summary that is long enough"
	delete(l.values, 1502)
	table, _ := open(t, Options{})
	table.add(l)
	rows := table.Survey()[1:]
	require.Len(t, rows, nodes)
	whys := make(map[string]int)
	for i, p := range rows {
		if i >= 500 && i <= 502 {
			require.Nil(t, p.Summary)
			require.True(t, p.Up)
			require.NotEmpty(t, p.Why)
			continue
		}
		require.EqualValues(t, i, p.Summary.Queues)
		whys[p.Why]++
	}
	require.Equal(t, nodes-3-20, whys[""])
	require.Equal(t, 20-queryOpens, whys["it has no rings with this node, and a survey opens rings to 8 nodes at most"])
	require.Equal(t, summary.ErrSilent.Error(), rows[500].Why)
	require.Contains(t, rows[502].Why, "no answer in")
}

// An engine writes what it may tell.
func TestPublished(t *testing.T) {
	own := &state.Summary{WQEs: 7, Disclosed: true, Programs: []state.Program{{Name: "p", PID: 3}}}
	for _, level := range []Disclosure{DiscloseCounts, DisclosePrograms, DiscloseNothing} {
		l := &writtenLink{testLink: testLink{name: "pool"}}
		table, _ := open(t, Options{})
		table.add(l)
		table.SetSummary(level, func() (*state.Summary, error) { c := *own; return &c, nil })
		h, body, err := summary.Parse(l.own())
		require.NoError(t, err)
		var c summary.Collection
		if level == DiscloseNothing {
			require.ErrorIs(t, c.Add(h, body), summary.ErrSilent)
			continue
		}
		require.NoError(t, c.Add(h, body))
		require.EqualValues(t, 7, c.Summary.WQEs)
		_, more := c.Next()
		require.Equal(t, level == DisclosePrograms, more)
	}
}
