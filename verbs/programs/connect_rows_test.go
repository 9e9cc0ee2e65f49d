package programs

import (
	"strings"
	"sync"
	"testing"
)

// rdmacmRows are the programs of rdmacm-utils. Their exit status says whether they have
// succeeded; -V and "-T v" have them check the data. IP is an address of the host.
var rdmacmRows = []row{
	{server: "rping -s -C 10 -V -a ADDR -p PORT", client: "rping -c -C 10 -v -V -a ADDR -p PORT", says: []string{"ping data: rdma-ping-9: "}, quick: true},
	{server: "rping -s -C 3 -V -S 65000 -a ADDR -p PORT", client: "rping -c -C 3 -V -S 65000 -a ADDR -p PORT", more: true},
	{server: "rping -s -C 10 -V -a ADDR -p PORT", client: "rping -c -C 10 -V -a ADDR -p PORT", addr: "::1"},
	// The wildcard address.
	{server: "rping -s -C 10 -V -p PORT", client: "rping -c -C 10 -V -a ADDR -p PORT", more: true},
	{server: "rping -s -C 10 -V -p PORT", client: "rping -c -C 10 -V -a IP -p PORT", more: true},
	{server: "rping -s -a IP -C 10 -V -p PORT", client: "rping -c -C 10 -V -a IP -p PORT", more: true},
	{server: "rping -s -C 10 -V -q -p PORT", client: "rping -c -C 10 -V -q -a ADDR -p PORT", more: true},
	{server: "rping -s -P -V -p PORT", client: "rping -c -C 10 -V -a ADDR -p PORT", stays: true, more: true},

	{server: "ucmatose -c 2 -C 10 -S 1000 -p PORT", client: "ucmatose -c 2 -C 10 -S 1000 -p PORT -s ADDR",
		says: []string{"data transfers complete", "return status 0"}, hears: []string{"return status 0"}},
	{server: "ucmatose -c 2 -m -t 32 -p PORT", client: "ucmatose -c 2 -m -t 32 -p PORT -s ADDR", says: []string{"return status 0"}, more: true},
	{server: "ucmatose -c 20 -p PORT", client: "ucmatose -c 20 -p PORT -s ADDR", says: []string{"return status 0"}, more: true},
	{server: "ucmatose -b ADDR -f ipv6 -p PORT", client: "ucmatose -f ipv6 -p PORT -s ADDR", addr: "::1", says: []string{"return status 0"}, more: true},

	{server: "ucmatose -f gid -P ib -b ::ffff:IP -p PORT", client: "ucmatose -f gid -P ib -s ::ffff:IP -p PORT", more: true},
	{server: "udaddy -f gid -P ib -b ::ffff:IP", client: "udaddy -f gid -P ib -s ::ffff:IP", more: true},
	{server: "rstream -f gid -b ::ffff:IP -S 4096 -C 10 -p PORT", client: "rstream -f gid -s ::ffff:IP -S 4096 -C 10 -p PORT", more: true},

	{server: "udaddy -c 2 -C 10 -S 1000", client: "udaddy -c 2 -C 10 -S 1000 -s ADDR",
		says: []string{"data transfers complete", "return status 0"}, hears: []string{"return status 0"}, quick: true},

	{server: "mckey -m 239.1.2.3 -b ADDR -C 10 -S 1000", ready: joins, client: "mckey -m 239.1.2.3 -b ADDR -s -C 10 -S 1000",
		says: []string{"initiating data transfers"}, hears: []string{"data transfers complete"}},

	{server: "rdma_server -p PORT", client: "rdma_client -s ADDR -p PORT", says: []string{"rdma_client: end 0"}, hears: []string{"rdma_server: end 0"}, quick: true},
	{server: "rdma_xserver -p PORT", client: "rdma_xclient -s ADDR -p PORT", says: []string{"rdma_xclient: end 0"}, hears: []string{"rdma_xserver: end 0"}},
	{server: "rdma_xserver -c x -p PORT", client: "rdma_xclient -c x -s ADDR -p PORT", says: []string{"rdma_xclient: end 0"}, hears: []string{"rdma_xserver: end 0"}},

	{server: "cmtime -c 20 -p PORT", client: "cmtime -c 20 -p PORT -s ADDR", stays: true, says: []string{`(?m)^connect +: +[0-9.]+ +[0-9.]+`}},
	{server: "rstream -T v -S 1024 -I 5 -p PORT", client: "rstream -T v -S 1024 -I 5 -p PORT -s ADDR", says: []string{`(?m)^custom .*\d`}},
	{server: "rstream -S 65536 -I 5 -C 5 -T b -p PORT", client: "rstream -S 65536 -I 5 -C 5 -T b -p PORT -s ADDR", says: []string{`(?m)^custom .*\d`}, more: true},
	{server: "rstream -T n -S 4096 -I 5 -p PORT", client: "rstream -T n -S 4096 -I 5 -p PORT -s ADDR", says: []string{`(?m)^custom .*\d`}, more: true},
	{server: "riostream -T v -S 4096 -I 5 -p PORT", client: "riostream -T v -S 4096 -I 5 -p PORT -s ADDR", says: []string{`(?m)^custom .*\d`}},
}

func TestRdmacmUtils(t *testing.T) {
	t.Parallel()
	matrix(t, cmRows())
}

// udaddyPort is the port 7174, on which udaddy always listens. A server that listens on it at all
// addresses excludes servers at single ones.
var udaddyPort sync.Mutex

// cmRows returns rdmacmRows, each with its readiness.
func cmRows() []row {
	rows := append([]row{}, rdmacmRows...)
	for i := range rows {
		if rows[i].ready == nil {
			rows[i].ready = listensCM
		}
		if strings.HasPrefix(rows[i].client, "udaddy") {
			rows[i].alone = &udaddyPort
		}
	}
	return rows
}

// perftestCM are programs of perftest that connect by rdma_cm, of every type of queue pair.
var perftestCM = []string{
	"ib_write_bw -R -n 300",
	"ib_read_lat -R -n 300",
	"ib_send_bw -R -n 300",
	"ib_atomic_lat -R -n 300",
	"ib_send_lat -R -n 300 -c UD -s 1024",

	"ib_write_lat -R -n 300",
	"ib_read_bw -R -n 300",
	"ib_send_lat -R -n 300",
	"ib_atomic_bw -R -n 300",
	"ib_send_bw -R -n 300 -c UD -s 1024",
	"ib_write_bw -R -n 100 -q 8",
	"ib_write_bw -R -n 300 -T 32",
	"ib_send_bw -R -n 300 -e",
	"ib_write_bw -n 300 -z",
}

// perftestXRC are programs of perftest over extended reliable connections.
var perftestXRC = []string{
	"ib_write_bw -c XRC -n 300",
	"ib_send_lat -c XRC -n 300",
	"ib_read_lat -c XRC -n 300",
	"ib_atomic_bw -c XRC -n 300",

	"ib_send_bw -c XRC -n 300",
	"ib_send_bw -c XRC -n 100 -q 4",
	"ib_write_lat -c XRC -n 300",
	"ib_read_bw -c XRC -n 300",
}

// perftestPair makes a row of a command line. everywhere: the row runs in all places.
func perftestPair(line string, ready readiness, everywhere bool) row {
	line += " -F -d nicless0 -p PORT"
	return row{server: line, ready: ready, client: line + " ADDR", more: !everywhere,
		says: []string{`(?m)^ +\d+ +\d+ +[0-9.naif-]+ +[0-9.naif-]+`}}
}

func TestPerftestCM(t *testing.T) {
	t.Parallel()
	var rows []row
	for i, line := range perftestCM {
		rows = append(rows, perftestPair(line, listensCM, i < 3))
	}
	matrix(t, rows)
}

func TestPerftestXRC(t *testing.T) {
	t.Parallel()
	var rows []row
	for i, line := range perftestXRC {
		rows = append(rows, perftestPair(line, listensTCP, i < 4))
	}
	matrix(t, rows)
}

// qperf connects by rdma_cm on an Ethernet port; its server ends when the client says quit.
func TestQperfCM(t *testing.T) {
	t.Parallel()
	matrix(t, []row{{
		server: "qperf -lp PORT", ready: listensTCP,
		client: "qperf ADDR -lp PORT -cm1 -t 1 rc_lat rc_rdma_read_bw ver_rc_fetch_add quit",
		says:   []string{`(?m)^rc_lat:\n    latency +=`, `(?m)^rc_rdma_read_bw:\n    bw +=`, `(?m)^ver_rc_fetch_add:\n    msg_rate +=`},
	}})
}
