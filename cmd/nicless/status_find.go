//go:build linux && (amd64 || arm64)

package main

import (
	"bufio"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/nicless/nicless/state"
)

// findEngines returns the sockets of the engines of this machine, sorted: the kernel lists the sockets of a
// network namespace in a file (proc_net_unix(5)), and an engine listens at its path with state.Suffix.
// Engines of other namespaces, and those whose path is relative, are not found.
func findEngines(file string) (sockets []string, err error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("status: --all: %w", err)
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		// Num: RefCount Protocol Flags Type St Inode Path
		fields := strings.SplitN(lines.Text(), " ", 8)
		const listens = "00010000" // SO_ACCEPTCON
		if len(fields) < 8 || fields[3] != listens {
			continue
		}
		path, ok := strings.CutSuffix(fields[7], state.Suffix)
		if ok && strings.HasPrefix(path, "/") && !slices.Contains(sockets, path) {
			sockets = append(sockets, path)
		}
	}
	slices.Sort(sockets)
	return sockets, nil
}
