// Command run makes the page of package decodepage.
//
//	go run ./tools/decodepage/run FILE
package main

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/nicless/nicless/tools/decodepage"
)

func main() {
	if len(os.Args) != 2 || strings.HasPrefix(os.Args[1], "-") {
		fmt.Fprintln(os.Stderr, "usage: go run ./tools/decodepage/run FILE")
		os.Exit(2)
	}
	if err := write(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "decodepage:", err)
		os.Exit(1)
	}
}

func write(file string) error {
	d, err := decodepage.Compile(context.Background())
	if err != nil {
		return err
	}
	html, err := d.Page("")
	if err != nil {
		return err
	}
	if err := os.WriteFile(file, html, 0o644); err != nil {
		return err
	}
	fmt.Printf("%s has %d bytes, the decoder %d; open it in a browser\n", file, len(html), len(d.Module))
	return nil
}
