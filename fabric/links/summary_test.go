//go:build linux && (amd64 || arm64)

package links

import (
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nicless/nicless/internal/freeport"
	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/internal/rendezvous"
	"github.com/nicless/nicless/internal/summary"
	"github.com/nicless/nicless/state"
	"github.com/stretchr/testify/require"
)

// A talkPort gives each message that is sent to a function.
type talkPort struct {
	testPort
	heard func(d rendezvous.Datagram)
}

func (p *talkPort) SendManagement(_ uint32, _, payload []byte) error {
	d, err := rendezvous.ParseDatagram((*[rendezvous.Size]byte)(payload[len(payload)-rendezvous.Size:]))
	if err != nil {
		return err
	}
	p.heard(d)
	return nil
}

// fromEngine is a message of an engine itself.
func fromEngine(guid uint64, value string) rendezvous.Datagram {
	return rendezvous.Datagram{Device: guid, From: answerBox, To: answerBox, Value: value}
}

// An answer counts if it comes from the engine that was asked, on its link, with the number of the question.
// Messages of others and of strangers do not, whatever they say.
func TestHostileAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &testLink{name: "a", guid: 5, path: nic.Path{Number: 1}}
		b := &testLink{name: "b", guid: 6, path: nic.Path{Number: 2}}
		var table *Table
		answer := func(name string, id uint64, part uint8) string {
			s := &state.Summary{Host: name, Disclosed: true, Programs: []state.Program{{Name: name}}}
			return summary.Put(s, 1, id, part)
		}
		a.path.Port = &talkPort{heard: func(d rendezvous.Datagram) {
			h, _, err := summary.Parse(d.Value)
			require.NoError(t, err)
			wrong := answer("wrong", h.ID, h.Part)
			table.fromPeer(b.path, packetOf(fromEngine(6, wrong), 1)) // b answers for a
			table.fromPeer(b.path, packetOf(fromEngine(5, wrong), 1)) // in its name
			table.fromRoCE(0, packetOf(fromEngine(5, wrong), 7))      // and a stranger
			table.fromRoCE(0, packetOf(fromEngine(123, wrong), 7))
			table.fromPeer(a.path, packetOf(fromEngine(5, answer("wrong", h.ID+1, h.Part)), 1))
			later := wrong[:1] + "\x09" + wrong[2:] // of another version
			table.fromPeer(a.path, packetOf(fromEngine(5, later), 1))
			table.fromPeer(a.path, packetOf(fromEngine(5, answer("a", h.ID, h.Part)), 1))
			table.fromPeer(a.path, packetOf(fromEngine(5, answer("again", h.ID, h.Part)), 1))
		}}
		asked := 0
		b.path.Port = &talkPort{heard: func(rendezvous.Datagram) { asked++ }} // says nothing
		table, _ = open(t, Options{}, a, b)
		list := table.Survey()
		require.Equal(t, queryTries, asked)
		require.Equal(t, []state.Peer{
			{GUID: "000000000000004d", Up: true, Why: "this engine gives no summary"},
			{GUID: "0000000000000005", Link: "a", Name: "a's", Up: true, Summary: &state.Summary{Host: "a", Disclosed: true, Programs: []state.Program{{Name: "a"}}}},
			{GUID: "0000000000000006", Link: "b", Name: "b's", Up: true, Why: "no answer in 700ms: it stands still, has ended, or is no engine that knows the question"},
		}, list)
		require.Empty(t, table.survey.waiting)
		_ = table.Survey()
		require.Equal(t, queryTries, asked, "a survey is given to those who ask soon after, too")
	})
}

// An answer that cannot be is said to be so, and ends the questions to that engine.
func TestAnswersThatCannotBe(t *testing.T) {
	a := &testLink{name: "a", guid: 5, path: nic.Path{Number: 1}}
	var table *Table
	a.path.Port = &talkPort{heard: func(d rendezvous.Datagram) {
		h, _, _ := summary.Parse(d.Value)
		s := &state.Summary{Disclosed: true, Programs: make([]state.Program, 4)}
		table.fromPeer(a.path, packetOf(fromEngine(5, summary.Put(s, 1, h.ID, h.Part)[:100]), 1))
	}}
	table, _ = open(t, Options{}, a)
	p := table.Survey()[1]
	require.Nil(t, p.Summary)
	require.Equal(t, "figures of 84 bytes; 160 are needed", p.Why)
}

// An engine that changes what it says with each part is asked so many times, and not more.
func TestEndlessAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &testLink{name: "a", guid: 5, path: nic.Path{Number: 1}}
		var table *Table
		asked := uint32(0)
		a.path.Port = &talkPort{heard: func(d rendezvous.Datagram) {
			asked++
			h, _, _ := summary.Parse(d.Value)
			s := &state.Summary{Disclosed: true, Programs: make([]state.Program, 4)}
			table.fromPeer(a.path, packetOf(fromEngine(5, summary.Put(s, asked, h.ID, h.Part)), 1))
		}}
		table, _ = open(t, Options{}, a)
		require.NotNil(t, table.Survey()[1].Summary)
		require.EqualValues(t, queryParts, asked)
	})
}

// A question of an engine is answered by as much as the table may tell. A client, whose box is in its
// messages, cannot ask, and neither can a stranger.
func TestQuestions(t *testing.T) {
	own := &state.Summary{WQEs: 7, Disclosed: true, Programs: []state.Program{{Name: "p", PID: 3}}}
	for level, want := range map[Disclosure]string{DisclosePrograms: "p", DiscloseCounts: "", DiscloseNothing: "-"} {
		got := make(chan string, 10)
		a := &testLink{name: "a", guid: 5, path: nic.Path{Number: 1}}
		a.path.Port = &talkPort{heard: func(d rendezvous.Datagram) { got <- d.Value }}
		table, dev := open(t, Options{}, a)
		question := packetOf(fromEngine(5, summary.Query(1, 0)), 1)
		table.fromPeer(a.path, question) // nobody answers yet
		table.SetSummary(level, func() (*state.Summary, error) { c := *own; return &c, nil })
		client := fromEngine(5, summary.Query(1, 0))
		client.From = 44
		table.fromPeer(a.path, packetOf(client, 1))
		delivered, _ := dev.got.Load(answerBox)
		require.NotNil(t, delivered, "to nobody's box")
		table.fromRoCE(0, packetOf(fromEngine(9, summary.Query(1, 0)), 7))
		table.fromPeer(a.path, packetOf(fromEngine(5, summary.Query(2, 0)), 1))
		h, body, err := summary.Parse(<-got)
		require.NoError(t, err)
		require.Equal(t, uint64(2), h.ID, "the first that is answered")
		if want == "-" {
			require.True(t, h.Silent)
			continue
		}
		var c summary.Collection
		require.NoError(t, c.Add(h, body))
		require.Equal(t, uint64(7), c.Summary.WQEs)
		require.EqualValues(t, 1, c.Summary.PeersUp)
		_, more := c.Next()
		require.Equal(t, want != "", more)
		if more {
			table.fromPeer(a.path, packetOf(fromEngine(5, summary.Query(2, 1)), 1))
			h, body, err = summary.Parse(<-got)
			require.NoError(t, err)
			require.NoError(t, c.Add(h, body))
			require.Equal(t, own.Programs, c.Summary.Programs)
		}
	}
}

// An engine gets so many answers in a second, and all together so many; the state of the engine is read a few
// times, whoever asks.
func TestAnswersAreLimited(t *testing.T) {
	table, _ := open(t, Options{})
	now, taken, sent := time.Unix(1000, 0), 0, 0
	a := &answerer{given: make(map[any]int), now: func() time.Time { return now },
		gives: func() (*state.Summary, error) { taken++; return &state.Summary{}, nil }}
	ask := func(who any, times int) (answers int) {
		sent = 0
		for range times {
			a.answer(table, request{who: who, head: summary.Head{ID: 1}, answer: func(string) { sent++ }})
		}
		return sent
	}
	require.Equal(t, answersOfPeer, ask(uint64(5), 1000))
	require.Equal(t, answersOfPeer, ask(uint64(6), 1000))
	require.Equal(t, 1, taken)
	all := 2 * answersOfPeer
	for i := range 10000 {
		all += ask(netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}), 1)
	}
	require.Equal(t, answersOfAll, all)
	now = now.Add(time.Second)
	require.Equal(t, answersOfPeer, ask(uint64(5), 1000))
	require.Equal(t, 2, taken)
}

// Over RoCE those are answered with whom this engine exchanges packets because it wants to.
func TestStrangersAreNotAnswered(t *testing.T) {
	own := freeport.Loopback(t, 1)[0]
	table, _ := open(t, Options{Local: []netip.Addr{own}})
	peer := netip.MustParseAddr("192.0.2.7")
	_, known := table.peerOfRoCE(peer)
	require.False(t, known)
	_, err := table.routeOnce(nic.Address{GID: peer.As16(), From: own.As16()})
	require.NoError(t, err)
	_, known = table.peerOfRoCE(peer)
	require.False(t, known, "it was answered once")
	want, err := table.Route(nic.Address{GID: peer.As16(), From: own.As16()})
	require.NoError(t, err)
	got, known := table.peerOfRoCE(peer)
	require.True(t, known)
	require.Equal(t, want.Number, got.Number)
}

// A thousand engines, of which some are silent, are asked in the time that one silent engine takes. It is the
// time of the bubble, in which answers take none.
func TestSurveyOfARack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var table *Table
		var mu sync.Mutex
		var links []*testLink
		for i := range 1000 {
			l := &testLink{name: fmt.Sprint("link ", i), guid: uint64(i + 1000), path: nic.Path{Number: uint32(i + 1)}}
			silent := i%100 == 0
			l.path.Port = &talkPort{heard: func(d rendezvous.Datagram) {
				h, _, err := summary.Parse(d.Value)
				if err != nil || silent {
					return
				}
				go func() {
					mu.Lock()
					defer mu.Unlock()
					table.fromPeer(l.path, packetOf(fromEngine(l.guid, summary.Put(&state.Summary{Queues: 2}, 1, h.ID, 0)), 1))
				}()
			}}
			links = append(links, l)
		}
		table, _ = open(t, Options{}, links...)
		begin, answered, silent := time.Now(), 0, 0
		for _, p := range table.Survey()[1:] {
			switch {
			case p.Summary != nil:
				require.EqualValues(t, 2, p.Summary.Queues)
				answered++
			case strings.HasPrefix(p.Why, "no answer in"):
				silent++
			}
		}
		require.Equal(t, [2]int{990, 10}, [2]int{answered, silent})
		require.Equal(t, queryTime*(1<<queryTries-1), time.Since(begin))
	})
}

func TestParseDisclosure(t *testing.T) {
	for s, want := range map[string]Disclosure{"": DiscloseCounts, "counts": DiscloseCounts, "programs": DisclosePrograms, "nothing": DiscloseNothing} {
		got, err := ParseDisclosure(s)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	_, err := ParseDisclosure("all")
	require.EqualError(t, err, `"all"; counts, programs and nothing are possible`)
}
