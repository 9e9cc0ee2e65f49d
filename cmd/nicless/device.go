//go:build linux && (amd64 || arm64)

package main

import "github.com/spf13/cobra"

// deviceCommands returns the commands that need the device.
func deviceCommands() []*cobra.Command {
	return []*cobra.Command{newDemo(), newEngine(), newRun(), newShell(), newStatus(), newTop(), newWeb(),
		newLinks(), newKey(), newNet(), newFault(), newBench(), newTorture(), newReplay(), newRecord()}
}
