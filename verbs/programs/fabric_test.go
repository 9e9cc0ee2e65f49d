package programs

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/nicless/nicless/internal/freeport"
	"github.com/nicless/nicless/internal/share"
	"github.com/stretchr/testify/require"
)

// verbsAcross are programs whose two ends exchange their addresses by TCP. GID stands for the index
// of a GID. The first one runs also without -programs.
var verbsAcross = []string{
	"ibv_rc_pingpong -c -n 100 -g GID",
	"ibv_rc_pingpong -c -n 50 -s 1000000 -m 1024 -g GID",
	"ibv_rc_pingpong -c -e -n 100 -g GID",
	"ibv_uc_pingpong -c -n 100 -g GID",
	"ibv_ud_pingpong -c -n 100 -s 1024 -g GID",
	"ibv_srq_pingpong -c -n 100 -g GID",
}

var perftestsAcross = []string{
	"ib_write_bw -n 100",
	"ib_write_lat -n 100",
	"ib_read_bw -n 100",
	"ib_read_lat -n 100",
	"ib_send_bw -n 100",
	"ib_send_lat -n 100",
	"ib_atomic_bw -n 100",
	"ib_atomic_lat -n 100",
	"ib_write_bw -n 5 -a",
	"ib_send_bw -n 100 -q 4",
	"ib_write_bw -n 300 -b",
	"ib_send_lat -n 100 -c UC",
	"ib_send_lat -n 100 -c UD -s 512",
}

// cmAcross are programs of rdma_cm; ADDR is an address in the servers' namespace.
var cmAcross = []row{
	{server: "rping -s -C 10 -V -a ADDR -p PORT", client: "rping -c -C 10 -v -V -a ADDR -p PORT", says: []string{"ping data: rdma-ping-9: "}},
	{server: "rping -s -C 3 -V -S 65000 -p PORT", client: "rping -c -C 3 -V -S 65000 -a ADDR -p PORT"},
	{server: "ucmatose -c 2 -C 10 -S 1000 -p PORT", client: "ucmatose -c 2 -C 10 -S 1000 -p PORT -s ADDR",
		says: []string{"data transfers complete", "return status 0"}, hears: []string{"return status 0"}},
	{server: "ucmatose -c 20 -p PORT", client: "ucmatose -c 20 -p PORT -s ADDR", says: []string{"return status 0"}},
	{server: "udaddy -c 2 -C 10 -S 1000", client: "udaddy -c 2 -C 10 -S 1000 -s ADDR",
		says: []string{"data transfers complete", "return status 0"}, hears: []string{"return status 0"}},
	{server: "rdma_server -p PORT", client: "rdma_client -s ADDR -p PORT", says: []string{"rdma_client: end 0"}, hears: []string{"rdma_server: end 0"}},
	{server: "rstream -T v -S 1024 -I 5 -p PORT", client: "rstream -T v -S 1024 -I 5 -p PORT -s ADDR", says: []string{`(?m)^custom .*\d`}},
	{server: "ib_write_bw -R -n 300 -F -p PORT", client: "ib_write_bw -R -n 300 -F -p PORT ADDR", says: []string{`(?m)^ +\d+ +\d+ +[0-9.naif-]+`}},
}

// checkedAcross are programs of verbs/check that check every byte. They move data by every
// operation, from every kind of memory, and make requests that must fail.
func checkedAcross(t *testing.T, p linkedPlace) (rows []row) {
	t.Helper()
	path := check(t, "validate")
	rows = append(rows, row{server: path + " serve PORT " + p.gid, ready: listensTCP, client: path + " connect ADDR PORT " + p.gid,
		says: []string{"validate: connect: 6 kinds of memory, 10 sizes, 18 errors: ok\n"}, hears: []string{"validate: serve: .*: ok\n"}})
	exact := "exact"
	if p.link == "" {
		exact = "losses" // the sockets have room for fewer datagrams than the program sends
	}
	line := check(t, "across") + " nicless0 " + p.gid + " PORT " + exact
	return append(rows, row{server: line, ready: listensTCP, client: line + " ADDR", says: []string{"across: 10 sizes, .*: ok\n"}, hears: []string{"across: .*: ok\n"}})
}

// linkedRows returns the rows that run in a place. Apart, a pool differs from one on the same host
// by its addresses only.
func linkedRows(p linkedPlace) (rows []row) {
	again := p.link == "pool" && p.apart
	for i, line := range verbsAcross {
		line = strings.Replace(line, "GID", p.gid, 1) + " -d nicless0 -p PORT"
		rows = append(rows, row{server: line, ready: listensTCP, client: line + " ADDR", quick: i == 0 && p.link != "ucx" && !again,
			says: []string{"bytes in", "iters in"}, hears: []string{"bytes in"}})
	}
	for _, line := range perftestsAcross {
		rows = append(rows, perftestPair(line+" -x "+p.gid, listensTCP, true))
	}
	if again {
		rows = rows[:1]
	}
	if p.apart { // on one host, each engine has the address itself
		for _, r := range cmAcross {
			r.ready = listensCM
			rows = append(rows, r)
		}
	}
	for i := range rows {
		if p.apart {
			rows[i].addr = nearAddress
		}
	}
	return rows
}

// Two engines reach each other: over RoCE between two unprivileged network namespaces, without a
// flag, over a pool, and over UCX. The server of each program runs on one engine, the client on the other.
func TestLinkedEngines(t *testing.T) {
	t.Parallel()
	for i, p := range linkedPlaces {
		rows := linkedRows(p)
		if !*whole {
			rows = slices.DeleteFunc(rows, func(r row) bool { return !r.quick })
		}
		if len(rows) == 0 {
			continue
		}
		t.Run(p.name, func(t *testing.T) {
			l := newLinked(t, p)
			rows := rows
			if *whole && p.name != "pool, apart" {
				for _, r := range checkedAcross(t, p) {
					r.addr = rows[0].addr
					rows = append(rows, r)
				}
			}
			// The engines find each other's addresses with their first programs, for which a
			// queue pair waits, but a connection of rdma_cm does not.
			release := l.holdsOpen(p)
			t.Run(rows[0].name(), func(t *testing.T) { rows[0].run(l.with(t)) })
			t.Run("programs", func(t *testing.T) {
				for j, r := range rows[1:] {
					if !share.Has(i, j) {
						continue
					}
					t.Run(r.name(), func(t *testing.T) {
						t.Parallel()
						r.run(l.with(t))
					})
				}
			})
			release()
			t.Run("filecopy", func(t *testing.T) { l.with(t).copies(t) })
			l.crosses(t, p, rows[0])
		})
	}
}

// holdsOpen lets a program listen at both ends, without work, until release is called. RoCE closes an address
// that opened by itself 5 s after its last use, and its sessions with keys. While there is no session, only
// short packets wait for it; a message of a UC or UD queue pair is lost, and its program waits for ever.
func (l *lab) holdsOpen(p linkedPlace) (release func()) {
	if p.link != "" || !*whole { // the short list has no second program
		return func() {}
	}
	var listeners []*process
	for end, address := range map[*lab]string{l: nearAddress, l.far: farAddress} {
		port := freeport.TCP(l.t)
		listener := end.start("rping", "-s", "-P", "-a", address, "-p", itoa(port))
		listensCM(end, listener, port)
		listeners = append(listeners, listener)
	}
	return func() {
		for _, listener := range listeners {
			listener.kill()
			<-listener.done
		}
	}
}

// crosses checks what nicless links prints while a program runs: the peer is up, packets are
// counted at both ends, and the reason why RoCE is open is there.
func (l *lab) crosses(t *testing.T, p linkedPlace, r row) {
	t.Helper()
	port := freeport.TCP(t)
	addr := r.addr
	if addr == "" {
		addr = "127.0.0.1"
	}
	endless := fmt.Sprintf("ibv_rc_pingpong -d nicless0 -g %s -n 1000000000 -p %d", p.gid, port)
	server := l.start(strings.Fields(endless)...)
	listens(server, port)
	client := l.far.start(strings.Fields(endless + " " + addr)...)
	for _, end := range []*lab{l, l.far} {
		var before *linkPeer
		end.peer(func(r linkReport, now linkPeer) bool {
			if !now.Up || p.link == "" && !strings.Contains(r.Why, "a queue pair is connected to 10.77.0.") {
				return false // not yet
			}
			if p.link != "" {
				require.True(t, strings.HasPrefix(r.Link, p.link+":"), "%+v", r)
				require.Empty(t, r.Why)
			}
			require.GreaterOrEqual(t, now.MTU, 1024)
			require.Equal(t, p.keys, strings.HasPrefix(now.Keys, "encrypted with key "), "%+v", now)
			if before == nil {
				before = &now
			}
			return now.Stats.Sent > before.Stats.Sent && now.Stats.Received > before.Stats.Received
		})
	}
	for _, p := range []*process{client, server} {
		p.kill()
		<-p.done
	}
}
