package devx_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nicless/nicless/field/devx"
)

// A client is a library that makes queues for accelerators or by firmware commands.
type client struct {
	name     string
	gpu      bool // its queues are for posters on a GPU: the row is in docs/CUDA.md too
	commands []uint16
	needs    string // what else it needs
	ran      []ran
	byHand   string // what ran outside of the tests: its own host code, where needed with a stub of CUDA
	not      string // what has not run
}

// ran is a test in which the client ran, or in which its way of making queues did.
type ran struct {
	test string // folder and function
	what string
}

const (
	programs = "verbs/programs."
	noGPU    = "anything on a GPU"
)

// clients are those that docs/VERBS.md lists.
var clients = []client{
	{"UCX 1.13 and 1.18, queues by verbs", false, []uint16{devx.OpQueryHCACap}, "",
		[]ran{{programs + "TestUCXMatrix", "DEVX=no"}, {programs + "TestUCXPerftest", ""}, {programs + "TestUCXData", ""}},
		"", "UCX master"},
	{"UCX 1.13 and 1.18, queues by DEVX", false, []uint16{devx.OpQueryHCACap, devx.OpQueryLAG, devx.OpCreateMkey,
		devx.OpCreateCQ, devx.OpCreateRMP, devx.OpCreateDCT, devx.OpCreateQP, devx.OpRST2INIT, devx.OpINIT2RTR,
		devx.OpRTR2RTS, devx.OpQueryQP, devx.Op2ERR}, "umems, event channels, eventfds, cyclic RMPs, queue pairs without a send queue",
		[]ran{{programs + "TestUCXMatrix", "DEVX=yes"}, {programs + "TestInfiniBandUCXByDEVX", ""}, {programs + "TestDEVXQueues", "shared"}},
		"UCX 1.23 (master of August 2026): rc_mlx5 and dc_mlx5, put, get, am, tag, stream, atomics", "gdaki"},
	{"Open MPI and OpenSHMEM over UCX", false, []uint16{devx.OpQueryHCACap}, "as UCX",
		[]ran{{programs + "TestUCXMatrixMPI", "DEVX=no and yes"}, {programs + "TestMPI", ""}, {programs + "TestOpenSHMEM", ""}}, "", ""},
	{"DOCA (NCCL GIN, torchcomms)", true, []uint16{devx.OpQueryHCACap, devx.OpCreateCQ, devx.OpCreateQP, devx.OpRST2INIT,
		devx.OpINIT2RTR, devx.OpRTR2RTS, devx.OpINIT2INIT, devx.OpRTS2RTS, devx.Op2RST, devx.OpQueryQP,
		devx.OpQueryRoCEAddress}, "a umem for each queue and record, no receives, queues without records, WAIT",
		[]ran{{programs + "TestDEVXLibraries", "DOCA, DOCA without records: its calls in a C program"}, {programs + "TestDEVXQueues", "pairs, alone"}},
		"DOCA GPUNetIO 2.0.1: its host library (all handlers with records, groups with a companion queue); on an H200 its examples put_bw, write_bw and write_lat, in host memory; on emulated GPUs the same with queues in GPU memory, and four examples of NCCL GIN (CUDA.md)", "torchcomms"},
	{"NVSHMEM, transport IBGDA", true, []uint16{devx.OpQueryHCACap, devx.OpCreateCQ, devx.OpCreateQP, devx.OpRST2INIT,
		devx.OpINIT2RTR, devx.OpRTR2RTS}, "collapsed CQs, SRQs and DCTs of verbs, DCIs, masked atomics",
		[]ran{{programs + "TestDEVXLibraries", "NVSHMEM IBGDA: its calls in a C program"}, {programs + "TestDEVXQueues", "collapsed"}},
		"NVSHMEM 3.5.1, two PEs: the transport, and on emulated GPUs device kernels, tests of its perftest and DeepEP's low latency (CUDA.md)", "on a GPU its queues in host memory are refused (CUDA.md)"},
	{"NVSHMEM, transport ibdevx", false, []uint16{devx.OpCreateQP, devx.OpRST2INIT, devx.OpINIT2RTR, devx.OpRTR2RTS},
		"umems without rights, CQs and SRQs of verbs, records of 16 bits, a consumer index modulo the size",
		[]ran{{programs + "TestDEVXLibraries", "NVSHMEM ibdevx: its calls in a C program"}, {"engine.TestRecordOfRungQueues", "records of 16 bits"}, {"engine.TestCountersOfConsumers", "consumer indices"}},
		"the transport of NVSHMEM 3.5.1, two PEs", "NVSHMEM above the transport"},
	{"rocSHMEM", true, []uint16{devx.OpCreateCQ, devx.OpCreateQP, devx.OpRST2INIT, devx.OpINIT2RTR, devx.OpRTR2RTS},
		"one umem for all, a CQ of two entries, UARs of type NC_DEDICATED (libmlx5 45)",
		[]ran{{programs + "TestDEVXLibraries", "rocSHMEM, with dedicated registers too: its calls in a C program"},
			{programs + "TestDEVXQueues", "together"}}, "", "rocSHMEM itself, " + noGPU},
	{"RDMaxcel (Monarch)", true, []uint16{devx.OpCreateMkey}, "mlx5dv_init_obj, dma-bufs; with kernels `--guard-posts`",
		[]ran{{programs + "TestDEVXLibraries", "RDMaxcel, with DEVX and without: segments that grow, in a C program"},
			{programs + "TestRDMaxcelExample", "with a stub of CUDA"}, {programs + "TestRawPost", ""},
			{programs + "TestGuardPosts", "stores in any order from a thread"}},
		"on an H200 and on emulated GPUs the library and kernels of monarch 3fc0a66: queues, registration, post, doorbell, poll (CUDA.md)", "segments of GPU memory"},
}

// clientTable returns the table of clients, of all or of those for GPUs.
func clientTable(gpu bool) string {
	var b strings.Builder
	b.WriteString("| client | firmware commands | needs also | where it ran | has not run |\n| --- | --- | --- | --- | --- |\n")
	for _, c := range clients {
		if gpu && !c.gpu {
			continue
		}
		var commands, where []string
		for _, op := range c.commands {
			commands = append(commands, devx.Name(op))
		}
		for _, r := range c.ran {
			text := "`" + r.test + "`"
			if r.what != "" {
				text += " (" + r.what + ")"
			}
			where = append(where, text)
		}
		if c.byHand != "" {
			where = append(where, "by hand: "+c.byHand)
		}
		or := func(s string) string {
			if s == "" {
				return "-"
			}
			return s
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", c.name, or(strings.Join(commands, ", ")), or(c.needs),
			or(strings.Join(where, ", ")), or(c.not))
	}
	return b.String()
}

// docs/VERBS.md and docs/CUDA.md have the table of clients. With UPDATE_DOCS=1 the test writes it there.
func TestDocsListTheClients(t *testing.T) {
	for path, gpu := range map[string]bool{"../../docs/VERBS.md": false, "../../docs/CUDA.md": true} {
		const begin, end = "<!-- begin: clients -->\n", "<!-- end -->\n"
		b, err := os.ReadFile(path)
		require.NoError(t, err)
		before, rest, ok := strings.Cut(string(b), begin)
		require.True(t, ok, path)
		list, after, ok := strings.Cut(rest, end)
		require.True(t, ok, path)
		if os.Getenv("UPDATE_DOCS") != "" {
			require.NoError(t, os.WriteFile(path, []byte(before+begin+clientTable(gpu)+end+after), 0o644))
			continue
		}
		require.Equal(t, clientTable(gpu), list, "%s: UPDATE_DOCS=1 go test ./field/devx -run Docs updates it", path)
	}
}

// The commands and the tests that the table names exist.
func TestClientsNameWhatExists(t *testing.T) {
	for _, c := range clients {
		for _, op := range c.commands {
			require.NotNil(t, devx.Find(op), "%s: command %#x", c.name, op)
		}
		require.True(t, len(c.ran) > 0 || c.not != "", c.name)
		for _, r := range c.ran {
			folder, function, ok := strings.Cut(r.test, ".")
			require.True(t, ok, r.test)
			files, err := filepath.Glob(filepath.Join("../..", folder, "*_test.go"))
			require.NoError(t, err)
			found := false
			for _, name := range files {
				b, err := os.ReadFile(name)
				require.NoError(t, err)
				found = found || strings.Contains(string(b), "\nfunc "+function+"(t *testing.T) {")
			}
			require.True(t, found, "%s: %s is no test", c.name, r.test)
		}
	}
}
