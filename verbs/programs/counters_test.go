package programs

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
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

// agrees checks that iproute2 and a monitor without the shim find the same values.
func agrees(t *testing.T, l *lab, want map[string]uint64) {
	if _, err := exec.LookPath("rdma"); err == nil {
		links := l.rdma([]string{"rdma"}, "statistic", "show", "link", "nicless0/1")
		require.Len(t, links, 1)
		for _, name := range []string{"rx_write_requests", "rx_read_requests", "rx_atomic_requests", "out_of_buffer"} {
			require.EqualValues(t, want[name], links[0][name], name)
		}
	}
	await.Until(t, "a monitor sees them", func() bool {
		seen := monitored(t, l, "nicless0")
		for name, n := range want {
			if strings.HasSuffix(name, "_data") {
				n *= 4
			}
			if seen[name] != n {
				return false
			}
		}
		return true
	})
}

// monitored reads the counters of a device as node_exporter does, which makes its system calls itself and so
// reads the engine's files: all regular files of both directories, as numbers. Data are words.
func monitored(t *testing.T, l *lab, device string) map[string]uint64 {
	port := filepath.Join(l.socket+".verbs", "sys/class/infiniband", device, "ports/1")
	for file, form := range map[string]string{
		"state":      `^\d: [A-Z]+\n$`,
		"phys_state": `^\d: [A-Za-z]+\n$`,
		"rate":       `^[\d.]+ Gb/sec \(.+\)\n$`,
	} {
		text, err := os.ReadFile(filepath.Join(port, file))
		require.NoError(t, err)
		require.Regexp(t, form, string(text), file)
	}
	seen := make(map[string]uint64)
	for directory, files := range map[string]int{"counters": 21, "hw_counters": 28 + 1} {
		list, err := os.ReadDir(filepath.Join(port, directory))
		require.NoError(t, err)
		require.Len(t, list, files)
		for _, f := range list {
			require.True(t, f.Type().IsRegular(), f.Name())
			text, err := os.ReadFile(filepath.Join(port, directory, f.Name()))
			require.NoError(t, err)
			n, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64)
			require.NoError(t, err, f.Name())
			if strings.HasSuffix(f.Name(), "_data") {
				n *= 4
			}
			seen[f.Name()] = n
		}
	}
	return seen
}

// perfquery shows what perftest has sent, in both attributes. A reset is one of perfquery's alone.
func TestPerfquery(t *testing.T) {
	t.Parallel()
	need(t, "ib_write_bw", "perfquery")
	l := &lab{t: t, engineFlags: []string{"--link-layer", "infiniband", "--device-name", "mlx5_%d"}}
	l.open()
	l.pair("ib_write_bw", "-s", "10000", "-m", "4096", "-F", "-n", "500", "-d", "mlx5_0")
	fields := regexp.MustCompile(`(?m)^(\w+):\.+(\d+)$`)
	query := func(flags ...string) map[string]string {
		all := make(map[string]string)
		for _, f := range fields.FindAllStringSubmatch(l.run(append([]string{"perfquery"}, flags...)...), -1) {
			all[f[1]] = f[2]
		}
		return all
	}
	sent := map[string]string{"PortXmitData": "1250000", "PortRcvData": "1250000", "PortXmitPkts": "1500", "PortRcvPkts": "1500"}
	// Values are at most 10 ms old.
	await.Until(t, "the counters", func() bool { return query()["PortXmitPkts"] == "1500" })
	for _, got := range []map[string]string{query(), query("-x")} {
		require.Subset(t, got, sent)
	}
	require.Subset(t, query("-x"), map[string]string{"PortUnicastXmitPkts": "1500", "PortUnicastRcvPkts": "1500", "PortMulticastXmitPkts": "0"})
	await.Until(t, "a monitor sees them", func() bool { return monitored(t, l, "mlx5_0")["rx_write_requests"] == 500 })
	l.run("perfquery", "-R")
	for name := range sent {
		require.Equal(t, "0", query()[name], name)
	}
	require.EqualValues(t, 1500, monitored(t, l, "mlx5_0")["port_xmit_packets"], "files are not reset")
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
			agrees(t, l, got)
		})
	}
}
