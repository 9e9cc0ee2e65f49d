//go:build !js

// Command decodepage makes a static page that decodes pasted dumps and logs of mlx5 queues in a
// browser: package field/report, built for WebAssembly. The text does not leave the browser.
//
//	go run ./examples/decodepage DIR
//
// DIR then has index.html, page.js, style.css, decode.wasm and Go's wasm_exec.js. Any web server
// can serve it, for example python3 -m http.server -d DIR. The program runs in a clone, because
// it builds the package of its own folder for the browser (page_js.go).
package main

import (
	"embed"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

//go:embed page
var page embed.FS

func main() {
	if len(os.Args) != 2 || strings.HasPrefix(os.Args[1], "-") {
		fmt.Fprintln(os.Stderr, "usage: decodepage DIR")
		os.Exit(2)
	}
	if err := makePage(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "decodepage:", err)
		os.Exit(1)
	}
	fmt.Printf("%s has the page; python3 -m http.server -d %s shows it at port 8000\n", os.Args[1], os.Args[1])
}

// makePage writes all files of the page into a folder, which it makes if it is missing.
func makePage(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	files, err := fs.Sub(page, "page")
	if err != nil {
		return err
	}
	names, err := fs.Glob(files, "*")
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := copyFile(filepath.Join(dir, name), files, name); err != nil {
			return err
		}
	}
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return fmt.Errorf("go env GOROOT: %w", err)
	}
	support := os.DirFS(filepath.Join(strings.TrimSpace(string(root)), "lib", "wasm"))
	if err := copyFile(filepath.Join(dir, "wasm_exec.js"), support, "wasm_exec.js"); err != nil {
		return err
	}
	return build(filepath.Join(dir, "decode.wasm"))
}

func copyFile(to string, from fs.FS, name string) error {
	b, err := fs.ReadFile(from, name)
	if err != nil {
		return err
	}
	return os.WriteFile(to, b, 0o644)
}

// build builds this package for browsers.
func build(to string) error {
	to, err := filepath.Abs(to)
	if err != nil {
		return err
	}
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", to,
		"github.com/nicless/nicless/examples/decodepage")
	cmd.Env = append(os.Environ(), "GOOS=js", "GOARCH=wasm", "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go build for js/wasm: %w\n%s", err, out)
	}
	return nil
}
