// Release makes the parts of a release for which a shell is not enough. scripts/release.sh starts it.
//
//	release glibc FILE...    refuses ELF files that glibc 2.31 does not load
//	release licenses ...     writes LICENSES into the tree of a tarball: of all that is in the command
//	release packages ...     makes .deb and .rpm from the tree
//	release bill ...         writes the bill of materials of the command
//	release image ...        makes the image of a container from packages of Debian and the command
//
// Each but the first has flags: -h lists them.
package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/nicless/nicless/release/glibc"
)

// commands are those of this program, by their names. Each takes the arguments after its name.
var commands = map[string]func(args []string) error{
	"glibc":    checkGlibc,
	"packages": writePackages,
	"bill":     writeBill,
	"licenses": writeLicenses,
	"image":    writeImage,
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "release: error:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) == 0 {
		return errors.New("a command is needed: see go doc ./release")
	}
	command, ok := commands[args[0]]
	if !ok {
		return fmt.Errorf("there is no command %q: see go doc ./release", args[0])
	}
	return command(args[1:])
}

func checkGlibc(files []string) (err error) {
	for _, file := range files {
		err = errors.Join(err, glibc.Check(file, glibc.Oldest))
	}
	return err
}
