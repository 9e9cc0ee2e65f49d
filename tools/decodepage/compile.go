package decodepage

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// A Decoder is the decoder for browsers, and what connects it to a page.
type Decoder struct {
	Module  []byte // WebAssembly, not compressed
	Support []byte // wasm_exec.js of the version of Go that made Module
}

const program = "github.com/nicless/nicless/tools/decodepage/wasm"

// flags of go build that make the module small, and the same wherever it is built. Without symbols and debug
// data it has 4.9 MB. Without inlining it has 3 % more, but 7 % less when it is compressed.
var flags = []string{"-trimpath", "-buildvcs=false", "-gcflags=all=-l", "-ldflags=-s -w -buildid="}

// Compile builds the decoder. It needs Go's command, and a current folder inside a clone of this tree. The
// error contains what the compiler says.
func Compile(ctx context.Context) (Decoder, error) {
	var d Decoder
	dir, err := os.MkdirTemp("", "decodepage")
	if err != nil {
		return d, err
	}
	defer os.RemoveAll(dir)
	out := filepath.Join(dir, "decode.wasm")
	args := append([]string{"build"}, flags...)
	cmd := exec.CommandContext(ctx, "go", append(args, "-o", out, program)...)
	cmd.Env = append(os.Environ(), "GOOS=js", "GOARCH=wasm", "CGO_ENABLED=0", "GOFLAGS=", "GOWASM=")
	if said, err := cmd.CombinedOutput(); err != nil {
		return d, fmt.Errorf("go build for js/wasm: %w\n%s", err, said)
	}
	d.Module, err = os.ReadFile(out)
	if err != nil {
		return d, err
	}
	root, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output()
	if err != nil {
		return d, fmt.Errorf("go env GOROOT: %w", err)
	}
	lib := filepath.Join(strings.TrimSpace(string(root)), "lib")
	d.Support, err = os.ReadFile(filepath.Join(lib, "wasm", "wasm_exec.js"))
	return d, err
}
