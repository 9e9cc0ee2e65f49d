package programs

import (
	"strconv"
	"strings"
	"testing"

	"github.com/nicless/nicless/internal/await"
	"github.com/stretchr/testify/require"
)

// counters returns the counters that are not 0, by name, as a program with the shim reads them.
func counters(t *testing.T, l *lab) map[string]uint64 {
	all := make(map[string]uint64)
	said := l.run("grep", "-r", ".", "/sys/class/infiniband/nicless0/ports/1/counters",
		"/sys/class/infiniband/nicless0/ports/1/hw_counters")
	for line := range strings.Lines(said) {
		path, text, ok := strings.Cut(strings.TrimSpace(line), ":")
		require.True(t, ok, line)
		n, err := strconv.ParseUint(text, 10, 64)
		require.NoError(t, err, line)
		name := path[strings.LastIndexByte(path, '/')+1:]
		_, twice := all[name]
		require.False(t, twice, name)
		all[name] = n
	}
	require.Len(t, all, 21+28+1)
	require.EqualValues(t, 10, all["lifespan"])
	delete(all, "lifespan")
	for name, n := range all {
		if n == 0 {
			delete(all, name)
		}
	}
	return all
}

// Programs read what other programs have sent: exactly so many requests, packets and words.
func TestCounters(t *testing.T) {
	t.Parallel()
	need(t, "ib_write_bw", "ib_read_bw", "ib_atomic_bw")
	for _, row := range []struct {
		program string
		flags   []string
		want    map[string]uint64
	}{
		// 500 messages of 10000 bytes are 3 packets each at a path MTU of 4096.
		{"ib_write_bw", []string{"-s", "10000", "-m", "4096"}, map[string]uint64{"rx_write_requests": 500,
			"port_xmit_packets": 1500, "port_rcv_packets": 1500, "unicast_xmit_packets": 1500,
			"unicast_rcv_packets": 1500, "port_xmit_data": 1250000, "port_rcv_data": 1250000}},
		// A short one takes the fast path of the engine: 3 packets of at most 1024 bytes.
		{"ib_write_bw", []string{"-s", "3000", "-m", "1024"}, map[string]uint64{"rx_write_requests": 500,
			"port_xmit_packets": 1500, "port_rcv_packets": 1500, "unicast_xmit_packets": 1500,
			"unicast_rcv_packets": 1500, "port_xmit_data": 375000, "port_rcv_data": 375000}},
		// The request of a READ is a packet without payload.
		{"ib_read_bw", []string{"-s", "10000", "-m", "4096"}, map[string]uint64{"rx_read_requests": 500,
			"port_xmit_packets": 2000, "port_rcv_packets": 2000, "unicast_xmit_packets": 2000,
			"unicast_rcv_packets": 2000, "port_xmit_data": 1250000, "port_rcv_data": 1250000}},
		{"ib_atomic_bw", []string{"-m", "4096"}, map[string]uint64{"rx_atomic_requests": 500,
			"port_xmit_packets": 1000, "port_rcv_packets": 1000, "unicast_xmit_packets": 1000,
			"unicast_rcv_packets": 1000}},
	} {
		t.Run(row.program+" "+strings.Join(row.flags, " "), func(t *testing.T) {
			l := newLab(t)
			require.Empty(t, counters(t, l))
			l.pair(append(append([]string{row.program}, row.flags...), "-F", "-n", "500", "-d", "nicless0")...)
			var got map[string]uint64
			await.Until(t, "the counters", func() bool { // values are at most 10 ms old
				got = counters(t, l)
				return len(got) >= len(row.want)
			})
			require.Equal(t, row.want, got)
		})
	}
}
