// Command walls measures the inside of packages: how many lines one has, how many methods its greatest type
// has, and how many uses between its files run against the direction of the rest.
//
//	go run ./tools/walls                      the packages of the engine
//	go run ./tools/walls -v ./fabric/pool     with the uses that run against the direction
//
// A use is an arrow from a file to another one in which something stands that the first names. The files are
// put into the order in which the fewest arrows go up; those that still do run against the direction. A file
// that only uses files below it can be read after them. Test files do not count.
package main

import (
	"flag"
	"fmt"
	"os"
	"strings"
)

// engine are the packages of the device, from the lowest to the highest.
var engine = []string{"object", "report", "completion", "execution", "transport", "loop", "request"}

func main() {
	verbose := flag.Bool("v", false, "list the uses against the direction, and the order of the files")
	flag.Parse()
	paths := flag.Args()
	if len(paths) == 0 {
		for _, name := range engine {
			paths = append(paths, module+"/engine/internal/"+name)
		}
		paths = append(paths, module+"/engine")
	}
	all, err := measure(".", paths...)
	if err != nil {
		fmt.Fprintln(os.Stderr, "walls: error:", err)
		os.Exit(1)
	}
	for _, p := range all {
		fmt.Printf("%-30s %5d lines, %2d files; %-10s has %2d methods; ",
			strings.TrimPrefix(p.path, module+"/"), p.lines, len(p.order), p.greatest, p.methods)
		fmt.Printf("of %3d uses between files %2d against the direction: %4.1f %%\n", p.uses, len(p.against), p.share())
		if !*verbose {
			continue
		}
		for _, u := range p.against {
			fmt.Printf("    %s uses of %s: %s\n", u.from, u.of, strings.Join(u.names, ", "))
		}
		fmt.Printf("    from the lowest: %s\n", strings.Join(p.order, " "))
	}
}
