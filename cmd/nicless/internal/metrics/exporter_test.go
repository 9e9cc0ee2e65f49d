package metrics

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nicless/nicless/fabric"
	"github.com/nicless/nicless/fabric/links"
	"github.com/nicless/nicless/state"
	"github.com/stretchr/testify/require"
)

func TestValuesAreThoseOfTheEngine(t *testing.T) {
	f := newFake(t)
	f.sample()
	e := f.exporter()
	for _, want := range []string{
		`nicless_build_info{goversion="go1.26",protocol="2.9",version="v1.2.3"} 1`,
		`nicless_engine_info{device="nicless0",guid="0200000000000001",pid="42"} 1`,
		`nicless_up 1`,
		`nicless_wqes_total 1010`,
		`nicless_payload_bytes_total 5640`,
		`nicless_start_time_seconds 1.799999e+09`,
		`nicless_fault_rules 2`,
		`nicless_thread_busy_seconds_total{thread="0"} 1.5`,
		`nicless_thread_wait_seconds_total{thread="0"} 0.25`,
		`nicless_thread_stalled_queues{thread="0"} 1`,
		`nicless_client_wqes_failed_total{client="put",device="nicless1",uid="1000"} 1`,
		`nicless_client_memory_bytes{client="put",device="nicless1",uid="1000"} 8192`,
		`nicless_client_waiting_queues{client="put",device="nicless1",uid="1000"} 1`,
		`nicless_link_up{link="roce:10.0.0.1",peer="10.0.0.2"} 1`,
		`nicless_link_up{link="roce:10.0.0.1",peer="10.0.0.3"} 0`,
		`nicless_link_packets_sent_total{link="roce:10.0.0.1",peer="10.0.0.2"} 20`,
		`nicless_link_packets_dropped_total{link="roce:10.0.0.1",peer="10.0.0.2",reason="wrong_key"} 4`,
	} {
		name, _, _ := strings.Cut(want, " ")
		require.Equal(t, []string{want}, lines(t, e, plainText, name+" "))
	}
	require.Empty(t, lines(t, e, plainText, `nicless_link_up{link="roce:10.0.0.1",peer="node 5"`), "a node that has never been there")
	require.Equal(t, []state.Kind{state.Clients}, f.lastRequest().Kinds, "queues are not asked for")
}

func TestExemplarsNameExplanations(t *testing.T) {
	f := newFake(t)
	f.sample()
	const exemplar = ` 3.0 # {code="receive-short",index="3",program="put",queue="0x69712c"} 1.0 1.7999995e+09`
	require.Equal(t, []string{`nicless_explained_total` + exemplar}, sorted(lines(t, f.exporter(), openMetrics, "nicless_explained_total")))
	require.Equal(t, []string{`nicless_client_explained_total{client="put",device="nicless1",uid="1000"}` + exemplar},
		sorted(lines(t, f.exporter(), openMetrics, "nicless_client_explained_total")))
	require.Equal(t, []string{"# EOF"}, lines(t, f.exporter(), openMetrics, "# EOF"))
	require.Equal(t, []string{`nicless_explained_total 3`}, lines(t, f.exporter(), plainText, "nicless_explained_total"))

	// Of a client that has come, failed and gone between two answers, the engine tells the explanation.
	f.set(func(f *fake) {
		f.state.Device.Errors = []state.Error{{Time: time.Unix(1_799_999_600, 0), Code: "ds-zero", Client: "get (pid 5)"}}
	})
	list := lines(t, f.exporter(), openMetrics, "nicless_explained_total")
	require.Len(t, list, 1)
	require.Contains(t, list[0], `code="ds-zero"`)
	require.Contains(t, list[0], `program="get (pid 5)"`)
	f.set(func(f *fake) { f.state.Device.Errors = nil })

	// Texts of any length and with any bytes: the bound is on the characters of all labels together.
	f.set(func(f *fake) {
		f.state.Clients[0].Program = strings.Repeat("ü", 300)
		f.state.Clients[0].Errors[0].Code = strings.Repeat("\xff\n", 300)
		f.state.Clients[0].Errors[0].Queue = 0xffffffff
	})
	list = lines(t, f.exporter(), openMetrics, "nicless_explained_total")
	require.Len(t, list, 1)
	require.Contains(t, list[0], `code="`+strings.Repeat("?", 32)+`"`)
}

// sorted sorts the labels of exemplars, whose order is by chance.
func sorted(list []string) []string {
	for i, line := range list {
		before, exemplar, _ := strings.Cut(line, " # {")
		exemplar, after, _ := strings.Cut(exemplar, "}")
		named := strings.Split(exemplar, ",")
		slices.Sort(named)
		list[i] = before + " # {" + strings.Join(named, ",") + "}" + after
	}
	return list
}

// However many ask at once, and for however many formats, the engine answers once.
func TestEngineIsAskedOnceASecond(t *testing.T) {
	f := newFake(t)
	f.sample()
	e := f.exporter()
	at := time.Unix(1_800_000_000, 0)
	e.now = func() time.Time { return at }
	scrape := func() {
		var all sync.WaitGroup
		for i := range 50 {
			all.Go(func() {
				if _, err := e.page([]format{plainText, openMetrics}[i%2]); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
	}
	scrape()
	require.Equal(t, 1, f.questions())
	at = at.Add(fresh - 1)
	scrape()
	require.Equal(t, 1, f.questions())
	at = at.Add(1)
	scrape()
	require.Equal(t, 2, f.questions())
}

func TestEngineThatDoesNotAnswer(t *testing.T) {
	f := newFake(t)
	f.sample()
	e := f.exporter()
	require.Equal(t, []string{"nicless_up 1"}, lines(t, e, plainText, "nicless_up"))
	f.set(func(f *fake) { f.refused = "it ends" })
	require.Equal(t, []string{"nicless_up 0"}, lines(t, e, plainText, "nicless_up"))
	require.Empty(t, lines(t, e, plainText, "nicless_wqes_total"), "old values are not shown as new ones")
	f.set(func(f *fake) { f.refused = "" })
	require.Equal(t, []string{"nicless_wqes_total 1010"}, lines(t, e, plainText, "nicless_wqes_total"))
}

// A client that goes while the engine answers can be missing in the answer.
func TestTotalsNeverGoBack(t *testing.T) {
	f := newFake(t)
	f.sample()
	e := f.exporter()
	require.Equal(t, []string{"nicless_wqes_total 1010"}, lines(t, e, plainText, "nicless_wqes_total"))
	f.set(func(f *fake) { f.state.Clients = nil })
	require.Equal(t, []string{"nicless_wqes_total 1010"}, lines(t, e, plainText, "nicless_wqes_total"))
	f.set(func(f *fake) { f.state.Device.Past.WQEs = 1012 })
	require.Equal(t, []string{"nicless_wqes_total 1012"}, lines(t, e, plainText, "nicless_wqes_total"))
	require.Equal(t, []string{`nicless_client_wqes_total{client="put",device="nicless1",uid="1000"} 10`},
		lines(t, e, plainText, "nicless_client_wqes_total"), "a program that has gone keeps its series")
	require.Equal(t, []string{`nicless_client_queues{client="put",device="nicless1",uid="1000"} 0`},
		lines(t, e, plainText, "nicless_client_queues"))
}

// Another engine at the same socket numbers its clients from 1, too: nothing of the engine before is in its
// metrics, neither a count nor a series of a program that has gone.
func TestAnotherEngineBeginsAnew(t *testing.T) {
	for name, restart := range map[string]func(*state.Device){
		"another process":                func(d *state.Device) { d.PID = 43 },
		"the same number in a container": func(d *state.Device) { d.Started = d.Started.Add(time.Millisecond) },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t)
			f.sample()
			gone := f.state.Clients[0]
			gone.Number, gone.Program = 6, "gone"
			f.state.Clients = append(f.state.Clients, gone)
			e := f.exporter()
			require.Len(t, lines(t, e, plainText, "nicless_client_wqes_total"), 2)
			f.set(func(f *fake) { f.state.Clients = f.state.Clients[:1] })
			require.Len(t, lines(t, e, plainText, "nicless_client_wqes_total"), 2, "it keeps its series")

			f.set(func(f *fake) {
				restart(&f.state.Device)
				f.state.Device.Past = state.Counts{WQEs: 3}
				c := &f.state.Clients[0]
				c.PID, c.UID, c.Program, c.Counts, c.Errors = 100, 2000, "get", state.Counts{WQEs: 4}, nil
				peer := f.links[0].Peers[0]
				peer.Stats.Sent = 5
				f.links = []links.Report{{Link: f.links[0].Link, Peers: []fabric.Peer{peer}}}
			})
			for name, want := range map[string]string{
				"nicless_wqes_total":              ` 7`,
				"nicless_explained_total":         ` 0`,
				"nicless_client_wqes_total":       `{client="get",device="nicless1",uid="2000"} 4`,
				"nicless_client_queues":           `{client="get",device="nicless1",uid="2000"} 3`,
				"nicless_link_packets_sent_total": `{link="roce:10.0.0.1",peer="10.0.0.2"} 5`,
			} {
				require.Equal(t, []string{name + want}, lines(t, e, plainText, name))
			}
			require.NotContains(t, lines(t, e, openMetrics, "nicless_explained_total")[0], "receive-short")
		})
	}
}

func TestNamesOfProgramsAreHostile(t *testing.T) {
	f := newFake(t)
	f.sample()
	one := f.state.Clients[0]
	f.state.Clients = nil
	for i, name := range []string{"\x1b[31mred", "\xff\xfe", "a\"b\\c\nd", "", "<b>x</b>", "\u202egnp", "ünï", "\xff\xfd"} {
		one.Number, one.Program = uint32(i+1), name
		f.state.Clients = append(f.state.Clients, one)
	}
	f.links[0].Link, f.links[0].Peers[0].Name = "roce:\x00\xff", "\n} 1"
	var got []string
	for _, l := range lines(t, f.exporter(), plainText, "nicless_client_connections") {
		_, l, _ = strings.Cut(l, `client="`)
		l, _, _ = strings.Cut(l, `",device`)
		got = append(got, l)
	}
	require.ElementsMatch(t, []string{`?[31mred`, `??`, `a\"b\\c?d`, `unknown`, `<b>x</b>`, `?gnp`, `ünï`}, got)
	require.Len(t, lines(t, f.exporter(), plainText, `nicless_client_connections{client="??",device="nicless1",uid="1000"} 2`), 1,
		"two names that are shown alike are one series")
	require.Equal(t, []string{`nicless_link_up{link="roce:??",peer="?} 1"} 1`}, lines(t, f.exporter(), plainText, `nicless_link_up{link="roce:??",peer="?}`))
}

func TestProgramsBeyondTheBoundAreOneSeries(t *testing.T) {
	f := newFake(t)
	f.sample()
	one := f.state.Clients[0]
	f.state.Clients = nil
	for user := range 5 {
		for i := range 200 {
			one.Number, one.UID, one.Program = uint32(len(f.state.Clients)+1), uint32(user), fmt.Sprint("p", i)
			f.state.Clients = append(f.state.Clients, one)
		}
	}
	e := f.exporter()
	require.Len(t, lines(t, e, plainText, "nicless_client_wqes_total"), mostClients+1)
	require.Len(t, lines(t, e, plainText, `nicless_client_wqes_total{client="p`), mostClients)
	rest := fmt.Sprintf(`nicless_client_connections{client="other",device="other",uid="other"} %d`, 1000-mostClients)
	require.Equal(t, []string{rest}, lines(t, e, plainText, `nicless_client_connections{client="other"`))
}
