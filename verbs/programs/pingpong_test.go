package programs

import (
	"strings"
	"testing"

	"github.com/nicless/nicless/internal/freeport"
	"github.com/stretchr/testify/require"
)

// ibv_devices lists all devices of an engine, one or several, and ibv_devinfo describes them.
func TestDevinfo(t *testing.T) {
	t.Parallel()
	need(t, "ibv_devices", "ibv_devinfo")
	l := newLab(t)
	require.Contains(t, l.run("ibv_devices"), "nicless0")
	said := l.run("ibv_devinfo", "-v")
	for _, want := range []string{
		"hca_id:\tnicless0", "PORT_ACTIVE (4)", "max_qp_wr:", "link_layer:\t\tEthernet", "GID[  0]:", "transport:\t\t\tInfiniBand (0)",
	} {
		require.Contains(t, said, want)
	}
	said = start(t, nil, binary, "run", "--private", "--devices", "3", "ibv_devices").succeeds()
	for _, want := range []string{"nicless0", "nicless1", "nicless2"} {
		require.Contains(t, said, want)
	}
}

// pingpongs are the programs of ibverbs-utils that move data. With -c they check the data.
var pingpongs = []string{
	"ibv_rc_pingpong -c",
	"ibv_uc_pingpong -c",
	"ibv_ud_pingpong -c",
	"ibv_srq_pingpong -c",
	"ibv_rc_pingpong -c -e",
	"ibv_uc_pingpong -c -e",
	"ibv_ud_pingpong -c -e",
	"ibv_srq_pingpong -c -e",
	"ibv_rc_pingpong -t",
	"ibv_rc_pingpong -c -N",
	"ibv_rc_pingpong -c -N -e",
	"ibv_rc_pingpong -c -s 1",
	"ibv_rc_pingpong -c -s 1000000 -m 4096",
	"ibv_srq_pingpong -c -q 1 -s 100000",
}

// ibv_xsrq_pingpong has a server for several clients, which all send by XRC to shared receive
// queues of one domain.
func TestXSRQPingpong(t *testing.T) {
	t.Parallel()
	need(t, "ibv_xsrq_pingpong")
	for _, mode := range modesNow() {
		for _, more := range []string{"", "-e"} {
			t.Run(mode.name+"/"+more, func(t *testing.T) {
				l := newLab(t, mode.flags...)
				port := freeport.TCP(t)
				argv := strings.Fields("ibv_xsrq_pingpong -g 0 -n 300 -p " + itoa(port) + " " + more)
				server := l.start(append(argv, "-c", "2")...)
				listens(server, port)
				for _, p := range []*process{l.start(append(argv, "127.0.0.1")...), l.start(append(argv, "127.0.0.1")...), server} {
					require.Contains(t, p.succeeds(), "success\n")
				}
			})
		}
	}
}

func TestPingpong(t *testing.T) {
	t.Parallel()
	list := pingpongs
	if !*whole {
		list = list[:4]
	}
	for _, mode := range modesNow() {
		if mode.flags != nil && !*whole {
			continue
		}
		for _, line := range list {
			t.Run(mode.name+"/"+line, func(t *testing.T) {
				argv := strings.Fields(line)
				need(t, argv[0])
				l := newLab(t, mode.flags...)
				server, client := l.pair(append(argv, "-d", "nicless0", "-g", "0", "-n", "300")...)
				for _, said := range []string{server, client} {
					require.Contains(t, said, "bytes in")
					require.Contains(t, said, "iters in")
					require.NotContains(t, said, "invalid data")
				}
			})
		}
	}
}
