//go:build linux && (amd64 || arm64)

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nicless/nicless/accel/ptx"
)

// Of the stores that were seen early those to one word are named, each once, and not those into the WQE that
// they have overtaken parts of.
func TestOvertakers(t *testing.T) {
	place := func(line int) ptx.Place { return ptx.Place{Kernel: "post", Line: line} }
	const slot, next, record = 0x1000, 0x1040, 0x2004
	all := []ptx.Overtaking{
		{First: place(1), Second: place(2), Address: slot, By: slot + 8},
		{First: place(1), Second: place(2), Address: slot, By: next + 8},
		{First: place(1), Second: place(3), Address: slot, By: record},
		{First: place(2), Second: place(3), Address: slot + 8, By: record},
		{First: place(2), Second: place(4), Address: slot + 8, By: next, Varies: true},
	}
	early := overtakers(all)
	require.Len(t, early, 1)
	require.Equal(t, overtaker{all[2], 1}, early[0])
	require.Equal(t, []overtaker{{all[4], 0}}, overtakers(all[4:]), "if none goes to one word, all are named")
	require.Empty(t, overtakers(all[:1]))
}

// A file that is cut off is warned of, and the others are read.
func TestOrdersThatCannotBeRead(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "1-0.json"), []byte(`[{"First":`), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "2-0.json"),
		[]byte(`[{"First":{"Kernel":"a","Line":1},"Second":{"Kernel":"a","Line":2},"Address":64,"By":640,"Seen":"the GPU"}]`), 0o600))
	var out strings.Builder
	lateOrders{dir}.print(&out)
	require.Contains(t, out.String(), "nicless: warning: the orders of stores: unexpected end of JSON input\n")
	require.Contains(t, out.String(), "nicless: order: the system has seen the store of a, PTX line 2 before that of a, PTX line 1, to address 0x40")
}
