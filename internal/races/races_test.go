package races

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTableIsComplete(t *testing.T) {
	for _, r := range Table {
		require.NotEmpty(t, r.Name)
		require.NotEmpty(t, r.Versions)
		require.NotEmpty(t, r.Why)
		require.Regexp(t, `^https://github\.com/`, r.Upstream, r.Name)
	}
}

// The message alone is no race: another program that prints it has another reason.
func TestFind(t *testing.T) {
	const closed, early = "rdma_get_cm_event: Bad file descriptor\n", "received: RDMA_CM_EVENT_REJECTED; error: 8.\n"
	require.Equal(t, 0, find("nicless run -- rping -c -C 10 -a ::1", closed))
	require.Equal(t, -1, find("ucmatose -s ::1", closed))
	require.Equal(t, -1, find("rping -c -C 10", "cq completion failed status 5\n"))
	require.Equal(t, 1, find("ib_write_bw -R -n 300 -F -p 1 127.0.0.1", early))
	require.Equal(t, 1, find("ib_write_bw -n 300 -z -F", early))
	require.Equal(t, -1, find("ib_write_bw -n 300 -F", early))
}

func TestTestsRunAgainAFewTimes(t *testing.T) {
	defer func() { counts[0] = 0 }()
	rping := []string{"rping", "-c"}
	for range most {
		require.True(t, Found(t, rping, "rdma_get_cm_event: Bad file descriptor"))
	}
	require.False(t, Found(t, rping, "rdma_get_cm_event: Bad file descriptor"))
	require.Equal(t, most, counts[0])
}

func TestSummaryTellsOfNone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "races")
	t.Setenv(Variable, path)
	Summary("these tests")
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	for _, r := range Table {
		require.Contains(t, string(text), "these tests: 0 runs repeated for the race of "+r.Name+", "+r.Upstream)
	}
}
