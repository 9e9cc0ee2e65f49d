//go:build linux && (amd64 || arm64)

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/nicless/nicless/fabric"
	"github.com/nicless/nicless/fabric/links"
	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/internal/tun"
	"github.com/nicless/nicless/internal/unixsock"
	"github.com/nicless/nicless/netdev"
)

// An interface reports what it has done at a socket beside that of its engine: SOCKET.net.PID.
const interfaceSuffix = ".net."

// reportInterface answers nicless links until stop is called.
func reportInterface(engine string, dev *tun.Device, in *netdev.Interface) (stop func(), err error) {
	path := fmt.Sprintf("%s%s%d", engine, interfaceSuffix, os.Getpid())
	return unixsock.Report(path, 0o600, func() any { return interfaceReport(dev, in) })
}

// queryInterfaces returns what the interfaces of an engine report. Those that have crashed leave a socket
// behind, which is passed over.
func queryInterfaces(engine string) (list []links.Report) {
	paths, _ := filepath.Glob(escapeGlob(engine) + interfaceSuffix + "*")
	for _, path := range paths {
		var r links.Report
		if unixsock.Query(path, startTime, &r) == nil {
			list = append(list, r)
		}
	}
	return list
}

func escapeGlob(path string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}

func interfaceReport(dev *tun.Device, in *netdev.Interface) links.Report {
	s := in.Stats()
	r := links.Report{Link: "interface " + s.Name}
	about := []string{fmt.Sprintf("%v, MTU %d, offloads: %v", s.Addresses, s.MTU, dev.Offloads())}
	if k, err := dev.Counters(); err == nil {
		about = append(about,
			fmt.Sprintf("the kernel has sent %d packets (%d dropped) and received %d (%d dropped)",
				k.SentPackets, k.SentDropped, k.ReceivedPackets, k.ReceivedDropped))
	}
	about = append(about, fmt.Sprintf("%d packets had no peer, %d were dropped for one", s.Unreachable, s.Dropped))
	r.About = strings.Join(about, "; ")
	for _, p := range s.Peers {
		name := p.Name
		for _, a := range p.Addresses {
			name += " " + a.String()
		}
		r.Peers = append(r.Peers, fabric.Peer{
			Name: name, GUID: p.Engine, Up: p.Up, Why: p.Why, MTU: p.MTU,
			Stats: nic.PortStats{Up: p.Up, Sent: p.Sent, Bytes: p.Bytes, Received: p.Received,
				GotBytes: p.GotBytes, Malformed: p.Refused},
		})
	}
	return r
}
