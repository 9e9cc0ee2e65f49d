package programs

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// ucxTransports are the transports of UCX that use the device: with the functions of
// libibverbs (_v), and with queues that UCX reads and writes itself (_x), which it prefers. UCX
// finds its way by one of them alone, so that nothing else can carry the data.
var ucxTransports = []string{"rc_v", "ud_v", "rc_x", "ud_x", "dc_x"}

// ucxTests are tests of ucx_perftest in its format of a batch: every kind of operation, from
// 8 bytes to 8 MiB. ucx_perftest does not check data (its -v prints in columns);
// TestUCXData does.
const ucxTests = `tag_lat -t tag_lat -s 8 -n 100 -w 10
tag_bw -t tag_bw -s 65536 -n 20 -w 2
tag_sync_lat -t tag_sync_lat -s 8388608 -n 2 -w 1
tag_sync_bw -t tag_sync_bw -s 1024 -n 20 -w 2
am_lat -t ucp_am_lat -s 8 -n 100 -w 10
am_bw -t ucp_am_bw -s 8388608 -n 2 -w 1
put_lat -t ucp_put_lat -s 8 -n 100 -w 10
put_bw -t ucp_put_bw -s 8388608 -n 2 -w 1
get_8 -t ucp_get -s 8 -n 100 -w 10
get -t ucp_get -s 8388608 -n 2 -w 1
add -t ucp_add -s 8 -n 100 -w 10
fadd -t ucp_fadd -s 8 -n 100 -w 10
swap -t ucp_swap -s 4 -n 50 -w 10
cswap -t ucp_cswap -s 8 -n 50 -w 10
stream_lat -t stream_lat -s 8 -n 100 -w 10
stream_bw -t stream_bw -s 8388608 -n 2 -w 1
`

func TestUCXPerftest(t *testing.T) {
	t.Parallel()
	batch := filepath.Join(t.TempDir(), "batch")
	require.NoError(t, os.WriteFile(batch, []byte(ucxTests), 0o600))
	var says []string
	for _, line := range strings.Split(strings.TrimSpace(ucxTests), "\n") {
		name, _, _ := strings.Cut(line, " ")
		// Iterations, and seven figures; inf: none in the last second.
		says = append(says, `(?m)^`+name+`,(\s*([0-9.]+|inf),){7}\s*[0-9.]+$`)
	}
	var rows []row
	for _, transport := range ucxTransports {
		line := fmt.Sprintf("env UCX_TLS=%s UCX_NET_DEVICES=nicless0:1 ucx_perftest -p PORT -b %s", transport, batch)
		rows = append(rows, row{server: line, ready: listensTCP, client: line + " -f -v ADDR", says: says, long: true})
	}
	for _, line := range []string{ // what UCX chooses itself: among all, and among what uses the device
		"ucx_perftest -p PORT -b " + batch,
		"env UCX_TLS=ib ucx_perftest -p PORT -b " + batch,
	} {
		rows = append(rows, row{server: line, ready: listensTCP, client: line + " -f -v ADDR", says: says, long: true})
	}
	matrix(t, rows)
}

// Each operation of UCX moves the right bytes, by each transport, and by those that UCX
// chooses itself.
func TestUCXData(t *testing.T) {
	t.Parallel()
	long(t)
	rows := []row{{client: check(t, "ucp"), says: []string{"(?m)^ucp: .*: ok$"}}}
	matrix(t, append(rows, ucxRows(t)...))
}

// The same is true on InfiniBand, where addresses are LIDs.
func TestInfiniBandUCX(t *testing.T) {
	t.Parallel()
	rows := ucxRows(t)
	for i := range rows {
		rows[i].more = true
	}
	matrix(t, rows, infiniBandFirst...)
}

// So it is with queues that UCX makes by DEVX. Then it posts datagrams and messages of DC with compact
// address vectors, which the device claims to understand.
func TestInfiniBandUCXByDEVX(t *testing.T) {
	t.Parallel()
	long(t)
	path := check(t, "ucp")
	var rows []row
	for _, transport := range []string{"ud_mlx5", "rc_mlx5,ud", "rc_x", "dc_x"} {
		rows = append(rows, row{
			client: fmt.Sprintf("env UCX_TLS=%s UCX_IB_MLX5_DEVX=yes UCX_NET_DEVICES=nicless0:1 %s", transport, path),
			says:   []string{"(?m)^ucp: .*: ok$"}, more: true,
		})
	}
	matrix(t, rows, append([]string{"--devx"}, infiniBandFirst...)...)
}

// ucxRows has a row for each transport that runs all operations of UCX.
func ucxRows(t *testing.T) (rows []row) {
	t.Helper()
	long(t)
	path := check(t, "ucp")
	for _, transport := range ucxTransports {
		rows = append(rows, row{
			client: fmt.Sprintf("env UCX_TLS=%s UCX_NET_DEVICES=nicless0:1 %s", transport, path),
			says:   []string{"(?m)^ucp: .*: ok$"},
		})
	}
	return rows
}

// ucx_info lists the transports of the device and can open them.
func TestUCXInfo(t *testing.T) {
	t.Parallel()
	var says []string
	for _, transport := range []string{"rc_verbs", "ud_verbs", "rc_mlx5", "ud_mlx5", "dc_mlx5"} {
		says = append(says, `(?m)^#\s+Transport: `+transport+`\n#\s+Device: nicless0:1\n(#.*\n){2}#\n#\s+capabilities:$`)
	}
	matrix(t, []row{{client: "ucx_info -d", says: says}})
}
