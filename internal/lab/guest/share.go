//go:build linux && (amd64 || arm64)

package main

import (
	"fmt"
	"os"
	"strconv"

	"github.com/nicless/nicless/internal/lab/finder"
)

// socket is that of the machine's engine.
const socket = "/run/engine.sock"

// share finds the shared memory that the options name.
func share(o map[string]string) error {
	kind := o["pool"]
	if kind == "" {
		return nil
	}
	node, err := strconv.Atoi(o["node"])
	if err != nil {
		return fmt.Errorf("lab.node=%q; the number of this machine is needed, from 0", o["node"])
	}
	if err := loadModules("/modules/order." + kind); err != nil {
		return err
	}
	p, err := finder.Find(kind)
	if err != nil {
		return err
	}
	link := p.Link(node) + ",wait=2m"
	if more := o["link"]; more != "" {
		link += "," + more
	}
	fmt.Printf("LAB node %d: %s, %d MiB at %s\n", node, p.What, p.Size>>20, p.Path)
	for name, value := range map[string]string{
		"NODE": o["node"], "POOL": p.Path, "SIZE": strconv.FormatUint(p.Size, 10),
		"COHERENT": strconv.FormatBool(p.Coherent),
		"LINK":     link, "SOCKET": socket, "ADDRESS": o["address"],
	} {
		if err := os.Setenv("LAB_"+name, value); err != nil {
			return err
		}
	}
	return nil
}
