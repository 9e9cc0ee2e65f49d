package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The files of the package are those that the generator makes from the headers that are installed.
func TestGenerated(t *testing.T) {
	files, err := parse(names)
	require.NoError(t, err)
	require.Len(t, files, 11)
	made := map[string]bool{"doc.go": true, "newer.go": true}
	constants := 0
	for _, f := range files {
		made[f.name] = true
		t.Run(f.name, func(t *testing.T) {
			needed(t, f.header)
			want, err := f.generate()
			require.NoError(t, err)
			got, err := os.ReadFile(filepath.Join("../..", folder, f.name))
			require.NoError(t, err)
			require.Equal(t, string(want), string(got), "after a change of names.txt: go run ./tools/abi")
			for _, g := range f.groups {
				constants += len(g.list)
			}
		})
	}
	there, err := filepath.Glob(filepath.Join("../..", folder, "*.go"))
	require.NoError(t, err)
	for _, path := range there {
		require.True(t, made[filepath.Base(path)], "nothing makes %s", path)
	}
	t.Logf("%d constants evaluated", constants)
}

// needed skips the test if the C compiler or a header is missing. In continuous integration, where nothing
// may be missing, it fails the test instead.
func needed(t *testing.T, header string) {
	t.Helper()
	check := exec.Command("cc", "-E", "-x", "c", "-o", os.DevNull, "-")
	check.Stdin = strings.NewReader("#include <stdio.h>\n#include <" + header + ">\n")
	said, err := check.CombinedOutput()
	if err == nil {
		return
	}
	const install = "needs a C compiler and %s (Debian and Ubuntu: apt install gcc libc6-dev libibverbs-dev): %v\n%s"
	if os.Getenv("CI") == "true" {
		t.Fatalf(install, header, err, said)
	}
	t.Skipf(install, header, err, said)
}

func TestParse(t *testing.T) {
	files, err := parse("# comment\nwords QP IDs\nfile a.go b.h about it\nstruct ib_x X\n\tqp_num a.b_ids last=End\nenum IB_ - bits enum y.\n\tONE_QP\n")
	require.NoError(t, err)
	require.Len(t, files, 1)
	require.Equal(t, []constant{
		{name: "XSize", expression: "sizeof(struct ib_x)"}, {name: "XQPNum", expression: "offsetof(struct ib_x, qp_num)"},
		{name: "XABIDs", expression: "offsetof(struct ib_x, a.b_ids)"}, {name: "XEnd", expression: "offsetof(struct ib_x, last)"},
	}, files[0].groups[0].list)
	g := files[0].groups[1]
	require.Equal(t, []constant{{name: "OneQP", expression: "IB_ONE_QP"}}, g.list)
	require.Equal(t, []string{"0", "1 << 0", "1 << 4", "6", "0x3ff00000", "-1"}, []string{
		g.write("0"), g.write("1"), g.write("16"), g.write("6"), g.write("1072693248"), g.write("-1")})
	for text, want := range map[string]string{
		"\tx": "names.txt:1", "words a\nstruct b C": "names.txt:2", "file a.go b.h": "names.txt:1", "file a.go b.h c\nunion x": "names.txt:2",
	} {
		_, err := parse(text)
		require.ErrorContains(t, err, want)
	}
}
