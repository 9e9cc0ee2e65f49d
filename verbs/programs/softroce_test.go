package programs

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// In rows, ADDR is the server's address. Each end replaces DEVICE, GID4 and GID6 by what they are
// there. The ends exchange their addresses by TCP, but for those of rping.

// A pingpong ends when it has what it waits for, although its last acknowledgement may be lost. Then
// the other end repeats its last message to a queue pair that is gone: ours ends with an error,
// Soft-RoCE's repeats it for ever, because seven retries have no limit there. So pingpongs
// are for a cable that loses nothing.
var pingpongRows = []row{
	softPingpong("ibv_rc_pingpong -c -n 100 -g GID4"),
	softPingpong("ibv_rc_pingpong -c -n 20 -s 100000 -m 4096 -g GID4"),
	softPingpong("ibv_rc_pingpong -c -n 100 -g GID6"),
	softPingpong("ibv_srq_pingpong -c -n 100 -g GID4"),
	softPingpong("ibv_uc_pingpong -c -n 100 -g GID4"),
	softPingpong("ibv_ud_pingpong -c -n 100 -s 1024 -g GID4"),
	softPingpong("ibv_ud_pingpong -c -n 100 -s 1024 -g GID6"),
}

// reliableRows end when both ends know that they have ended. Soft-RoCE answers 128 READs at once,
// ours asks for 16: with -o both ends agree.
var reliableRows = []row{
	softPerftest("ib_write_bw -n 100 -s 20000"),
	softPerftest("ib_read_bw -n 100 -s 20000 -o 16"),
	softPerftest("ib_send_bw -n 100 -s 20000"),
	softPerftest("ib_atomic_bw -n 100 -o 16"),
	{server: "rping -s -C 10 -V -a ADDR -p PORT", ready: listensSoftCM, client: "rping -c -C 10 -v -V -a ADDR -p PORT",
		says: []string{"ping data: rdma-ping-9: "}},
}

// acrossRow moves data by every operation, and checks it. The client posts.
func acrossRow(t *testing.T, gid, what string) row {
	line := check(t, "across") + " DEVICE " + gid + " PORT " + what
	return row{server: line, ready: listensSoft, client: line + " ADDR", hears: []string{"across: .*: ok"},
		says: []string{"across: 10 sizes, atomics, send with invalidate, (0|13) errors, MTU 4096, .*: ok"}}
}

func softPingpong(line string) row {
	line += " -d DEVICE -p PORT"
	return row{server: line, ready: listensSoft, client: line + " ADDR", says: []string{"bytes in", "iters in"}, hears: []string{"bytes in"}}
}

func softPerftest(line string) row {
	line += " -F -x GID4 -d DEVICE -p PORT"
	return row{server: line, ready: listensSoft, client: line + " ADDR", says: []string{`(?m)^ +\d+ +\d+ +[0-9.naif-]+`}}
}

// Programs of ours, unmodified, exchange data with Linux's Soft-RoCE, which is another device with
// another driver: both ways, each end as server and as client, and over a cable that loses packets.
func TestSoftRoCE(t *testing.T) {
	long(t)
	s := newSoftRoCE(t, check(t, "across"), "ibv_devinfo", "ibv_rc_pingpong", "ibv_uc_pingpong", "ibv_ud_pingpong", "ibv_srq_pingpong",
		"rping", "ib_write_bw", "ib_read_bw", "ib_send_bw", "ib_atomic_bw")
	t.Run("every packet arrives", func(t *testing.T) {
		s.run(t, slices.Concat(pingpongRows, reliableRows, []row{acrossRow(t, "GID4", "exact"), acrossRow(t, "GID6", "exact")}))
	})
	t.Run("3 of 100 packets are lost", func(t *testing.T) {
		s.loses(t, 0.03)
		rows := append(slices.Clone(reliableRows), acrossRow(t, "GID4", "losses"), acrossRow(t, "GID6", "losses"))
		for i, r := range rows {
			// Its server waits for a DREQ, which is not repeated once the client has exited.
			rows[i].stays = strings.HasPrefix(r.server, "rping")
		}
		s.run(t, rows)
		s.loses(t, 0)
		require.Regexp(t, `loss is 0; carried \d{4,} and lost \d{2,} `, s.cable.said.String())
	})
}

// run runs rows with the server on either side.
func (s *softRoCE) run(t *testing.T, rows []row) {
	for _, at := range []struct {
		name    string
		servers *lab
		addr    string
	}{{"from Soft-RoCE", s.ours, ourAddress4}, {"to Soft-RoCE", s.soft, softAddress4}} {
		t.Run(at.name, func(t *testing.T) {
			t.Cleanup(func() {
				if t.Failed() {
					t.Logf("our engine's links: %+v\nand its log:\n%s", s.ours.reports(), tail(s.ours.engine.said.String()))
				}
			})
			for _, r := range rows {
				r.addr = at.addr
				t.Run(r.name(), func(t *testing.T) { r.run(at.servers.with(t)) })
			}
		})
	}
}

// listensSoft is listensTCP on either side.
func listensSoft(l *lab, server *process, port int) {
	if l.machine == nil {
		listens(server, port)
		return
	}
	l.shows(server, func(said string) bool {
		return slices.ContainsFunc(lines(said), func(line string) bool {
			f := strings.Fields(line)
			return len(f) > 3 && f[3] == "0A" && strings.HasSuffix(f[1], fmt.Sprintf(":%04X", port))
		})
	}, "cat", "/proc/net/tcp", "/proc/net/tcp6")
}

// listensSoftCM is listensCM on either side.
func listensSoftCM(l *lab, server *process, port int) {
	if l.machine == nil {
		listensCM(l, server, port)
		return
	}
	l.shows(server, func(said string) bool {
		return strings.Contains(said, "LISTEN") && strings.Contains(said, fmt.Sprintf(":%d ", port))
	},
		"rdma", "resource", "show", "cm_id")
}
