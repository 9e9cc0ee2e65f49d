package programs

import (
	"regexp"
	"strings"
	"testing"

	"github.com/nicless/nicless/internal/freeport"
	"github.com/nicless/nicless/internal/share"
	"github.com/stretchr/testify/require"
)

// infiniBandFirst are flags of an engine whose first device has an InfiniBand port, and whose
// second has one of RoCE.
var infiniBandFirst = []string{"--verbs-devices", "2", "--link-layer", "infiniband,ethernet"}

// Programs of rdma_cm on InfiniBand: IP addresses lead to the port, as with IPoIB.
func TestInfiniBandCM(t *testing.T) {
	t.Parallel()
	rows := []row{
		{server: "udaddy -p 0x0002 -b ADDR", client: "udaddy -p 0x0002 -s ADDR", says: []string{"return status 0"}, more: true},
		{server: "mckey -m ff0e::7 -b ::1 -C 10", ready: joins, client: "mckey -m ff0e::7 -b ::1 -s -C 10", hears: []string{"data transfers complete"}, more: true},
		{server: "mckey -m 239.1.2.4 -b ADDR -p 0x0002 -C 10", ready: joins, client: "mckey -m 239.1.2.4 -b ADDR -p 0x0002 -s -C 10", hears: []string{"data transfers complete"}},
		{
			server: "qperf -lp PORT", ready: listensTCP,
			client: "qperf ADDR -lp PORT -cm1 -t 1 rc_lat rc_rdma_read_bw ver_rc_fetch_add quit",
			says:   []string{`(?m)^rc_lat:\n    latency +=`, `(?m)^rc_rdma_read_bw:\n    bw +=`, `(?m)^ver_rc_fetch_add:\n    msg_rate +=`},
		},
	}
	for _, r := range cmRows() {
		if !strings.Contains(r.server, "-f gid") {
			rows = append(rows, r)
		}
	}
	for i, line := range perftestCM {
		rows = append(rows, perftestPair(line, listensCM, i < 1))
	}
	for i := range rows {
		if rows[i].ready == nil {
			rows[i].ready = listensCM
		}
	}
	matrix(t, rows, infiniBandFirst...)
}

// Programs of rdma_cm that name the InfiniBand port by its GID.
func TestInfiniBandGIDs(t *testing.T) {
	t.Parallel()
	need(t, "ibv_devinfo")
	l := newLabAt(t, places()[0], infiniBandFirst...)
	gid := regexp.MustCompile(`GID\[ *0\]:\s*(\S+)`).FindStringSubmatch(l.run("ibv_devinfo", "-v", "-d", "nicless0"))
	require.NotNil(t, gid)
	for _, r := range []row{
		{server: "ucmatose -f gid -P ib -b ADDR -p PORT", client: "ucmatose -f gid -P ib -s ADDR -p PORT"},
		{server: "udaddy -f gid -P ib -b ADDR", client: "udaddy -f gid -P ib -s ADDR"},
		{server: "rstream -f gid -b ADDR -S 4096 -C 10 -p PORT", client: "rstream -f gid -s ADDR -S 4096 -C 10 -p PORT"},
	} {
		t.Run(r.name(), func(t *testing.T) {
			r.addr, r.ready = gid[1], listensCM
			r.run(l.with(t))
		})
	}
}

// newInfiniBand starts such an engine.
func newInfiniBand(t *testing.T, flags ...string) *lab {
	t.Helper()
	l := &lab{t: t, flags: flags, engineFlags: infiniBandFirst}
	l.open()
	return l
}

// Programs that address their peers by LIDs, as they do on InfiniBand.
func TestInfiniBand(t *testing.T) {
	t.Parallel()
	need(t, "ibv_devinfo", "ibv_rc_pingpong", "ib_send_bw")
	l := newInfiniBand(t)
	said := l.run("ibv_devinfo", "-v", "-d", "nicless0")
	for _, want := range []string{`link_layer:\t\tInfiniBand`, `port_lid:\t\t[1-9]\d*\n`, `sm_lid:\t\t\t1\n`} {
		require.Regexp(t, want, said)
	}
	for _, line := range []string{"ibv_rc_pingpong -c", "ibv_uc_pingpong -c", "ibv_ud_pingpong -c", "ibv_srq_pingpong -c", "ibv_rc_pingpong -c -g 0"} {
		argv := strings.Fields(line)
		need(t, argv[0])
		_, client := l.pair(append(argv, "-d", "nicless0", "-n", "200")...)
		require.Contains(t, client, "iters in")
	}
	for _, line := range []string{"ib_write_bw", "ib_send_bw -c UD", "ib_read_lat", "ib_atomic_lat"} {
		argv := strings.Fields(line)
		need(t, argv[0])
		l.pair(append(argv, "-F", "-d", "nicless0", "-n", "100")...)
	}
	require.Contains(t, l.run(check(t, "datagram"), "nicless0"), "datagram: InfiniBand: 2 addresses, 2 groups: ok\n")
	require.Contains(t, l.run(check(t, "datagram"), "nicless1"), "datagram: Ethernet: ")
}

// qperfs are the tests of qperf that use verbs, but for those of XRC.
var qperfs = []string{
	"rc_bi_bw", "rc_bw", "rc_lat", "uc_bi_bw", "uc_bw", "uc_lat", "ud_bi_bw", "ud_bw", "ud_lat",
	"rc_rdma_read_bw", "rc_rdma_read_lat", "rc_rdma_write_bw", "rc_rdma_write_lat", "rc_rdma_write_poll_lat",
	"uc_rdma_write_bw", "uc_rdma_write_lat", "uc_rdma_write_poll_lat",
	"rc_compare_swap_mr", "rc_fetch_add_mr", "ver_rc_compare_swap", "ver_rc_fetch_add",
}

// qperf addresses its peer by a LID, and with -cm1 by rdma_cm.
func TestQperf(t *testing.T) {
	t.Parallel()
	need(t, "qperf")
	long(t)
	for i, mode := range modes {
		t.Run(mode.name, func(t *testing.T) {
			t.Parallel() // each test of qperf takes a second, whatever else runs
			l := newInfiniBand(t, mode.flags...)
			port := freeport.TCP(t)
			server := l.start("qperf", "-lp", itoa(port))
			listens(server, port)
			for j, name := range qperfs {
				if !share.Has(i, j) {
					continue
				}
				how := []string{"-i nicless0"}
				if i == 0 && (strings.HasPrefix(name, "rc_") || strings.HasPrefix(name, "ver_rc_")) {
					how = append(how, "-cm1")
				}
				for _, how := range how {
					argv := append([]string{"qperf", "127.0.0.1", "-lp", itoa(port), "-t", "1"}, strings.Fields(how)...)
					require.Regexp(t, name+`:\n +(bw|send_bw|latency|msg_rate) +=`, l.run(append(argv, name)...))
				}
			}
			l.run("qperf", "127.0.0.1", "-lp", itoa(port), "quit")
			server.succeeds()
		})
	}
}
