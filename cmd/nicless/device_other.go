//go:build !(linux && (amd64 || arm64))

package main

import (
	"github.com/nicless/nicless/internal/platform"
	"github.com/spf13/cobra"
)

// deviceCommands returns the commands that need the device. On this system each of them only
// returns an error that says that there is no device.
func deviceCommands() (list []*cobra.Command) {
	for _, name := range []string{"demo", "engine", "run", "shell", "links", "net", "fault", "bench",
		"torture", "replay"} {
		err := platform.Unsupported("nicless " + name)
		list = append(list, &cobra.Command{
			Use: name, Short: "needs Linux on amd64 or arm64",
			Long:               err.Error() + "\n",
			DisableFlagParsing: true, // the error is the same whatever the flags are
			RunE:               func(*cobra.Command, []string) error { return err },
		})
	}
	return list
}
