//go:build linux && (amd64 || arm64)

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/nicless/nicless/fabric"
	"github.com/nicless/nicless/fabric/links"
	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/internal/tun"
	"github.com/nicless/nicless/internal/unixsock"
	"github.com/nicless/nicless/netdev"
	"github.com/nicless/nicless/netdev/names"
)

// An interface reports what it has done at a socket beside that of its engine: SOCKET.net.PID.
const interfaceSuffix = ".net."

// reportInterface answers nicless links until stop is called.
func reportInterface(engine string, dev *tun.Device, in *netdev.Interface) (stop func(), err error) {
	path := fmt.Sprintf("%s%s%d", engine, interfaceSuffix, os.Getpid())
	return unixsock.Report(path, 0o600, func() any { return interfaceReport(dev, in) })
}

// interfaceTime is how long all interfaces of an engine may take to report. One that runs needs a
// millisecond; one that gets no core on a busy machine has been seen to need half a second.
const interfaceTime = 3 * time.Second

// queryInterfaces returns what the interfaces of an engine report. All are asked at the same time. One that
// does not answer within patience, for example because its process is stopped, has a report that says so.
// Those that have crashed leave a socket behind, which is passed over.
func queryInterfaces(engine string, patience time.Duration) []links.Report {
	prefix := engine + interfaceSuffix
	paths, _ := filepath.Glob(escapeGlob(prefix) + "*")
	reports := make([]links.Report, len(paths))
	var all sync.WaitGroup
	for i, path := range paths {
		all.Go(func() {
			err := unixsock.Query(path, patience, &reports[i])
			// EAGAIN: so many connections wait that the socket takes no more, because nobody accepts them.
			if errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, syscall.EAGAIN) {
				reports[i] = links.Report{
					Link:  "interface of process " + strings.TrimPrefix(path, prefix),
					About: fmt.Sprintf("it has not answered in %v; is the process stopped?", patience),
				}
			} else if err != nil {
				reports[i] = links.Report{}
			}
		})
	}
	all.Wait()
	return slices.DeleteFunc(reports, func(r links.Report) bool { return r.Link == "" })
}

func escapeGlob(path string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}

func interfaceReport(dev *tun.Device, in *netdev.Interface) links.Report {
	s := in.Stats()
	r := links.Report{Link: "interface " + s.Name + domain(s.Host)}
	about := []string{fmt.Sprintf("%v, MTU %d, offloads: %v", s.Addresses, s.MTU, dev.Offloads())}
	if k, err := dev.Counters(); err == nil {
		about = append(about,
			fmt.Sprintf("the kernel has sent %d packets (%d dropped) and received %d (%d dropped)",
				k.SentPackets, k.SentDropped, k.ReceivedPackets, k.ReceivedDropped))
	}
	about = append(about, fmt.Sprintf("%d packets had no peer, %d were dropped for one", s.Unreachable, s.Dropped))
	r.About = strings.Join(about, "; ")
	for _, p := range s.Peers {
		name := p.Name + domain(p.Host)
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

// domain is a host's name as programs resolve it, with a space before it.
func domain(host string) string {
	if host == "" {
		return ""
	}
	return " " + host + "." + strings.TrimSuffix(names.Domain, ".")
}
