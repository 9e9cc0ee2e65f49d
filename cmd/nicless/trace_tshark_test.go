package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nicless/nicless/internal/await"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// tshark runs tshark on packets of the sample. If it is not installed, the test is skipped; in CI it fails.
func tshark(t *testing.T, flags []string, args ...string) (lines []string) {
	t.Helper()
	path, err := exec.LookPath("tshark")
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("CI needs tshark: %v", err)
		}
		t.Skipf("tshark is not installed (Debian: apt install tshark): %v", err)
	}
	file := filepath.Join(t.TempDir(), "sample.pcapng")
	status, _, errs := shown(t, append([]string{sampleTrace(t), "-o", file}, flags...)...)
	require.Zero(t, status, errs)
	c := exec.CommandContext(await.Context(t), path, append([]string{"-n", "-r", file}, args...)...)
	c.Env = append(os.Environ(), "HOME="+t.TempDir(), "TZ=UTC") // without settings of a user
	c.Stderr = os.Stderr
	out, err := c.Output()
	require.NoError(t, err)
	return strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
}

// The operations of the sample, as tshark names them in its list, and how many packets each has.
var operations = map[string]int{
	"RC Send First": 4, "RC Send Last": 3, "RC Send Only Immediate": 1, "RC Send Only Invalidate": 1,
	"RC RDMA Write First": 2, "RC RDMA Write Middle": 2, "RC RDMA Write Last Immediate": 1, "RC RDMA Write Only": 11,
	"RC RDMA Read Request": 2, "RC RDMA Read Response First": 1, "RC RDMA Read Response Middle": 1022,
	"RC RDMA Read Response Last": 1, "RC RDMA Read Response Only": 1,
	"RC Fetch Add": 1, "RC Compare Swap": 1, "RC Atomic Acknowledge": 3, "RC Acknowledge": 18,
	"UC Send Only Immediate": 1, "UC RDMA Write First": 1, "UC RDMA Write Middle": 2, "UC RDMA Write Last Immediate": 1,
	"UD Send Only": 1, "Unknown OpCode": 1, // a masked atomic
}

func TestTsharkNamesOperations(t *testing.T) {
	found := map[string]int{}
	for _, info := range tshark(t, nil, "-T", "fields", "-e", "_ws.col.Info") {
		name, _, _ := strings.Cut(info, "QP=")
		found[strings.TrimSpace(name)]++
	}
	delete(found, "SNMP (Unknown Attribute)") // tshark takes a datagram to QP 1 for a message of management
	require.Equal(t, operations, found)
}

// Packets that are cut have all their headers, and tshark names their operations in the details.
func TestTsharkReadsCutPackets(t *testing.T) {
	found := map[string]int{}
	cut := 0
	for _, line := range tshark(t, []string{"--cut"}, "-T", "fields", "-e", "infiniband.bth.opcode", "-e", "frame.cap_len", "-e", "frame.len",
		"-e", "frame.interface_name", "-e", "frame.comment") {
		f := strings.Split(line, "\t")
		require.Len(t, f, 5, line)
		require.NotEmpty(t, f[0])
		found[f[0]]++
		if f[1] != f[2] {
			cut++
		}
		if f[3] == "memory" {
			assert.Regexp(t, "^done in memory, not sent: (the answer to [A-Z_]+, )?qp 0x", f[4])
		} else {
			assert.Equal(t, "link", f[3])
			assert.Regexp(t, "^(sent|received) on port 1 ", f[4])
		}
	}
	require.Greater(t, cut, 1000)
	sum := 0
	for _, n := range operations {
		sum += n
	}
	all := 0
	for _, n := range found {
		all += n
	}
	require.Equal(t, sum+1, all)
	details := strings.Join(tshark(t, nil, "-V"), "\n")
	for _, want := range []string{"Opcode: Reliable Connection (RC) - RDMA WRITE Only (10)", "Opcode: Reliable Connection (RC) - FetchAdd (20)",
		"Opcode: Unreliable Datagram (UD) - SEND only with Immediate (101)", "Virtual Address: 0x00007f1200001000", "Remote Key: 0x0001a201",
		"DMA Length: 1048576", "Immediate Data: deadbeef", "Source Queue Pair: 0x00000055", "RKey: 0000abcd"} {
		assert.Contains(t, details, want)
	}
}
