//go:build linux && (amd64 || arm64)

package top

import (
	"context"
	"fmt"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/nicless/nicless/state"
	"github.com/stretchr/testify/require"
)

// many returns a source with n queue pairs, of which number i does i WQEs a second.
func many(n int) *recorded {
	r := &recorded{}
	for second := range uint64(2) {
		s := &state.Snapshot{Taken: began.Add(time.Duration(second) * time.Second),
			Device:  state.Device{GUID: "1", Name: "nicless0", Queues: n, Started: began},
			Threads: []state.Thread{{Time: second * 1e9}},
			Clients: []state.Client{{Number: 1, Program: "many", Queues: n}}}
		for i := range uint64(n) {
			s.Queues = append(s.Queues, state.Queue{Number: uint32(i + 1), Client: 1, Time: second * 1e9, Transport: "RC",
				State: "RTS", WQEs: i * second})
		}
		r.moments = append(r.moments, moment{Snapshot: s})
	}
	return r
}

// Ten thousand queues are ordered, filtered and scrolled, and the engine is asked the more seldom.
func TestManyQueues(t *testing.T) {
	r := many(10000)
	s := newScreen(t, r, 80, 24)
	r.read = func() { s.cpu += 70 * time.Millisecond }
	s.keys("refresh")
	require.Contains(t, s.text(), ">   0x2710 many         RTS   10.0k")
	require.Contains(t, s.text(), "every 7s")
	require.Equal(t, 7*time.Second, s.pauses[len(s.pauses)-1])
	s.keys("end")
	require.Contains(t, s.text(), ">      0x1 many         RTS       0")
	s.keys("N")
	require.Contains(t, s.text(), "> ")
	s.keys("home")
	require.Contains(t, s.text(), ">      0x1 many")
	s.keys("pgdown")
	require.NotContains(t, s.text(), ">      0x1 many")
	s.keys("/ 0x271 enter")
	require.Contains(t, s.text(), "2 of 10,000  filter: 0x271")
	require.LessOrEqual(t, len(r.measured), 2*mostSamples, "queues on the screen only, few at a time")
}

// Samples of latencies count in the pause, too.
func TestSamplesInPause(t *testing.T) {
	r := many(50)
	s := newScreen(t, r, 80, 24)
	r.sample = func() { s.cpu += 20 * time.Millisecond }
	s.keys("refresh") // the second answer, with samples behind it
	require.Len(t, r.measured, mostSamples)
	s.keys("refresh")
	require.Equal(t, 100*mostSamples*20*time.Millisecond, s.pauses[len(s.pauses)-1])
	require.Len(t, r.measured, mostSamples, "a refresh without samples")
	s.keys("refresh")
	require.Equal(t, time.Second, s.pauses[len(s.pauses)-1], "only those since the refresh before")
	require.Len(t, r.measured, 2*mostSamples)
}

// The cursor stays on its row when rows move.
func TestCursorStays(t *testing.T) {
	r := many(50)
	s := newScreen(t, r, 80, 24)
	s.keys("down down")
	require.Contains(t, s.text(), ">      0x3 many")
	s.keys("refresh") // the order is by rate now
	require.Contains(t, s.text(), ">      0x3 many")
	require.Contains(t, s.text(), "0x4 many")
}

// A number may be typed as other commands write it, with six digits.
func TestFilterOfANumber(t *testing.T) {
	s := newScreen(t, many(300), 80, 24)
	s.m.grid().setFilter("0x00012b")
	shown, _ := s.m.grid().counts()
	require.Equal(t, 1, shown)
}

// A benchmark of what a refresh costs here: of the snapshot, rows and their order, and the drawing.
func BenchmarkRefresh(b *testing.B) {
	for _, n := range []int{10, 1000, 10000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			r := many(n)
			m := New(context.Background(), r, Options{Interval: time.Second, Now: time.Now, CPU: processorTime,
				After: func(time.Duration, tea.Msg) tea.Cmd { return nil }})
			m.Update(tea.WindowSizeMsg{Width: 120, Height: 50})
			for i := range b.N {
				m.Update(answer{question: m.question(), snapshot: r.moments[i%2].Snapshot})
				_ = m.View()
			}
		})
	}
}
