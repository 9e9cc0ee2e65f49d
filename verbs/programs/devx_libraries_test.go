package programs

import (
	"strings"
	"testing"

	"github.com/nicless/nicless/internal/share"
	"github.com/stretchr/testify/require"
)

// A library is a program of ours that makes the calls of a GPU-initiated library in its order, and posts and
// polls as the library's kernels do.
type library struct {
	name, program string
	options       []string
	newer         bool // with libmlx5 of Debian 13, in the first mode only
	off           bool // in contexts without DEVX
	says          string
	explains      []string
}

var initiated = []library{
	{name: "DOCA", program: "doca", says: "doca: pairs, groups, no record: ok\n", explains: oneWithoutRecord},
	{name: "DOCA without records", program: "doca", options: []string{"dedicated"}, newer: true,
		says: "doca: pairs, groups, no records on several pages: ok\n", explains: oneWithoutRecord},
	{name: "NVSHMEM IBGDA", program: "ibgda", says: "ibgda: 2 DCTs, 2 DCIs, RC, masked atomics: ok\n"},
	{name: "NVSHMEM IBGDA with dedicated registers", program: "ibgda", newer: true,
		says: "ibgda: 2 DCTs, 2 DCIs, RC, masked atomics: ok\n"},
	{name: "NVSHMEM ibdevx", program: "ibdevx", says: "ibdevx: puts, gets, values, atomics: ok\n"},
	{name: "rocSHMEM", program: "rocshmem", says: "rocshmem: 2 types of UARs, CQs of two entries: ok\n"},
	{name: "rocSHMEM with dedicated registers", program: "rocshmem", options: []string{"dedicated"}, newer: true,
		says: "rocshmem: 3 types of UARs, CQs of two entries: ok\n"},
	{name: "RDMaxcel", program: "rdmaxcel", says: segmentGrew},
	{name: "RDMaxcel without DEVX", program: "rdmaxcel", off: true, says: segmentGrew},
}

const segmentGrew = "rdmaxcel: a segment of 28 parts, by one key, while its peer writes: ok\n"

// oneWithoutRecord is why a UAR page does not have a second queue pair without a record.
var oneWithoutRecord = []string{"is on this page without a record, and the new one, in umem 0x"}

// libraryModes are the ways in which these programs run; without -programs only the first.
var libraryModes = []struct {
	name          string
	flags, engine []string
}{
	{"fast", nil, nil},
	{"process_vm", []string{"--slow-memory"}, nil},
	{"guarded", []string{"--guard-posts"}, nil},
	{"InfiniBand", nil, infiniBandFirst},
}

// The calls of libraries whose queues are for GPUs make queues that carry data.
func TestDEVXLibraries(t *testing.T) {
	t.Parallel()
	for i, r := range initiated {
		modes := libraryModes
		if !*whole || r.newer {
			modes = modes[:1]
		}
		for j, mode := range modes {
			if !share.Has(i, j) {
				continue
			}
			t.Run(r.name+"/"+mode.name, func(t *testing.T) {
				t.Parallel()
				root := debianRoot{}
				if r.newer {
					long(t)
					root = newerUCX(t)
				}
				devx := "--devx"
				if r.off {
					devx = "--no-devx"
				}
				l := &lab{t: t, flags: append([]string{devx, "--explain"}, mode.flags...), engineFlags: mode.engine}
				l.open()
				line := root.environment + root.program(check(t, r.program), r.options...)
				said := l.run(append([]string{"env"}, strings.Fields(line)...)...)
				for _, want := range append([]string{r.says}, r.explains...) {
					require.Contains(t, said, want)
				}
				l.works()
			})
		}
	}
}
