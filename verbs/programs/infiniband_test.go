package programs

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// newInfiniBand starts an engine whose first device has an InfiniBand port, and whose second has
// one of RoCE.
func newInfiniBand(t *testing.T, flags ...string) *lab {
	t.Helper()
	l := &lab{t: t, flags: flags, engineFlags: []string{"--verbs-devices", "2", "--link-layer", "infiniband,ethernet"}}
	l.open()
	return l
}

// Programs that address their peers by LIDs, as they do on InfiniBand.
func TestInfiniBand(t *testing.T) {
	need(t, "ibv_devinfo", "ibv_rc_pingpong", "ib_send_bw")
	l := newInfiniBand(t)
	said := l.run("ibv_devinfo", "-v", "-d", "nicless0")
	for _, want := range []string{"link_layer:\t\tInfiniBand", "port_lid:\t\t2", "sm_lid:\t\t\t1"} {
		require.Contains(t, said, want)
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

// qperf addresses its peer by a LID, unless it uses rdma_cm.
func TestQperf(t *testing.T) {
	need(t, "qperf")
	list := qperfs
	if !*whole {
		list = []string{"rc_bw", "ud_lat", "ver_rc_fetch_add"}
	}
	for _, mode := range modes {
		t.Run(mode.name, func(t *testing.T) {
			l := newInfiniBand(t, mode.flags...)
			port := freePort(t)
			server := l.start("qperf", "-lp", itoa(port))
			listens(server, port)
			for _, name := range list {
				said := l.run("qperf", "127.0.0.1", "-lp", itoa(port), "-i", "nicless0", "-t", "1", name)
				require.Regexp(t, name+`:\n +(bw|send_bw|latency|msg_rate) +=`, said)
			}
			l.run("qperf", "127.0.0.1", "-lp", itoa(port), "quit")
			server.succeeds()
		})
	}
}
