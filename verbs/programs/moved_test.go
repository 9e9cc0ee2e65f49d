package programs

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/nicless/nicless/internal/share"
	"github.com/stretchr/testify/require"
)

// movedModes are the arguments of verbs/check/moved, by the names of modes.
var movedModes = map[string]string{"fast": "fast", "process_vm": "slow"}

// Registered memory behaves as on hardware, whatever a program does with it, in both modes:
// each row of the table in docs/reference/registered-memory.md is a cell of the program. It takes half a
// minute, so a share of four runs it in one of the modes, as nobody, or in namespaces.
func TestMovedMemory(t *testing.T) {
	t.Parallel()
	long(t)
	path := check(t, "moved")
	for i, mode := range modes {
		if !share.Has(i) {
			continue
		}
		t.Run(mode.name, func(t *testing.T) { moved(newLab(t, mode.flags...), path, movedModes[mode.name]) })
	}
}

// Rings may share pages with other rings, whatever the order in which they come and go.
func TestPackedRings(t *testing.T) {
	t.Parallel()
	path := check(t, "packed")
	for _, flag := range []string{"--devx", "--no-devx", "--slow-memory"} {
		l := newLab(t, flag)
		require.Contains(t, l.run(path), "packed: rings that share pages: ok\n", flag)
		l.works()
	}
}

// Without privileges a userfaultfd holds up only a program's own code.
func TestMovedMemoryOfNobody(t *testing.T) {
	t.Parallel()
	long(t)
	if os.Getuid() != 0 {
		t.Skip("needs root, to become the user nobody; TestMovedMemory has run without privileges")
	}
	share.Only(t, 2)
	path := check(t, "moved")
	require.NoError(t, os.Chmod(path, 0o755))
	l := &lab{t: t, user: &syscall.Credential{Uid: 65534, Gid: 65534}}
	l.open()
	moved(l, path, "fast")
}

// In namespaces of its own, as in a container, a program's memory is moved too.
func TestMovedMemoryInNamespaces(t *testing.T) {
	t.Parallel()
	long(t)
	need(t, "unshare")
	share.Only(t, 3)
	path := check(t, "moved")
	p := start(t, nil, "unshare", "--user", "--map-root-user", "--mount", "--pid", "--fork", "--mount-proc", "--ipc", "--net",
		binary, "run", "--private", "--", path, "fast")
	require.Contains(t, p.succeeds(), cells(t))
}

func moved(l *lab, path, mode string) {
	said := l.run(path, mode)
	require.Contains(l.t, said, cells(l.t))
	if mode == "fast" {
		require.Contains(l.t, said, "was made by a system call and not by fork")
	}
	for _, line := range lines(said) {
		if !strings.HasSuffix(line, ": ok") {
			l.t.Log(line)
		}
	}
	l.works()
}

// cells returns the last line of verbs/check/moved.
func cells(t *testing.T) string {
	t.Helper()
	return "moved: " + itoa(len(cellNames(t))) + " cells: ok\n"
}

// cellNames returns the names of the cells, of which the last one is the end.
func cellNames(t *testing.T) (names []string) {
	t.Helper()
	for _, source := range checks["moved"] {
		text, err := os.ReadFile("../check/" + source)
		require.NoError(t, err)
		for _, cell := range regexp.MustCompile(`\tcell\("(.*)"\)`).FindAllSubmatch(text, -1) {
			if name := string(cell[1]); name != "end" {
				names = append(names, name)
			}
		}
	}
	return names
}

// The table in docs/reference/registered-memory.md has the cells of the program, and the reverse.
func TestMovedMemoryTable(t *testing.T) {
	doc, err := os.ReadFile(filepath.Join(repository, "docs/reference/registered-memory.md"))
	require.NoError(t, err)
	_, table, ok := strings.Cut(string(doc), "| what | on hardware | moved memory (default) |")
	require.True(t, ok)
	table, _, _ = strings.Cut(table, "\n\n")
	named := map[string]bool{}
	for _, line := range lines(table)[2:] {
		columns := strings.Split(strings.TrimSuffix(line, " |"), " | ")
		named[columns[len(columns)-1]] = true
	}
	require.ElementsMatch(t, cellNames(t), slices.Collect(maps.Keys(named)))
}
