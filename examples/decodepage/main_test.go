//go:build !js

package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

// inNode runs decode.wasm as the page does, and prints what its functions return.
const inNode = `
const path = require("path"), fs = require("fs"), dir = process.argv[1];
require(path.join(dir, "wasm_exec.js"));
const go = new Go();
WebAssembly.instantiate(fs.readFileSync(path.join(dir, "decode.wasm")), go.importObject).then((wasm) => {
	go.run(wasm.instance);
	for (const text of JSON.parse(fs.readFileSync(0, "utf8"))) console.log(niclessDecode(text));
	console.log(niclessExplain("IBV_WC_REM_ACCESS_ERR"));
	console.log(niclessExplain("key-acess"));
	console.log(niclessDecode(7));
	process.exit(0);
}).catch((err) => { console.error(err); process.exit(1); });
`

const pasted = `["mlx5: cn10: got completion with error:\n00000000 00000000 00000000 00000000\n` +
	`00000000 00000000 00000000 00000000\n00000002 00000000 00000000 00000000\n` +
	`00000000 00008813 10012abe 0dd0c1d3\n", "hello", "00000000 00000007 00000000 00000007"]`

// The page has all its files, and its decoder works in a JavaScript machine.
func TestPage(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "page")
	require.NoError(t, makePage(dir))
	html, err := os.ReadFile(filepath.Join(dir, "index.html"))
	require.NoError(t, err)
	for _, m := range regexp.MustCompile(`(?:src|href)="([^"]+)"`).FindAllSubmatch(html, -1) {
		require.FileExists(t, filepath.Join(dir, string(m[1])))
	}
	wasm, err := os.ReadFile(filepath.Join(dir, "decode.wasm"))
	require.NoError(t, err)
	require.True(t, bytes.HasPrefix(wasm, []byte("\x00asm")))
	t.Logf("decode.wasm has %d bytes", len(wasm))

	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("node (package nodejs) is missing: the decoder was built, and not run")
	}
	cmd := exec.Command(node, "-e", inNode, dir)
	cmd.Stdin = bytes.NewReader([]byte(pasted))
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	for _, want := range []string{
		"syndrome 0x13: remote access error", "vendor byte 0x88: NAK remote access error", "1. the rkey names no memory",
		"no CQE, WQE, packet or error of a completion in 1 lines", "lines 1 to 1: 16 bytes that are no CQE",
		`nothing is known about "key-acess"; the nearest names are key-access`, "one text is needed",
	} {
		require.Contains(t, string(out), want)
	}
}

// Bad command lines and folders are errors.
func TestNoPage(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	require.Error(t, makePage(filepath.Join(file, "page")))
}
