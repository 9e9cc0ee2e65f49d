//go:build linux && (amd64 || arm64)

package top

import (
	"context"
	"time"

	"github.com/nicless/nicless"
	"github.com/nicless/nicless/cmd/nicless/internal/latency"
	"github.com/nicless/nicless/fabric/links"
	"github.com/nicless/nicless/internal/unixsock"
	"github.com/nicless/nicless/state"
)

// A live source is an engine, by the path of its socket.
type live string

// Live returns the source that asks the engine whose socket is at path.
func Live(path string) Source { return live(path) }

func (l live) Read(ctx context.Context, r state.Request) (*state.Snapshot, error) {
	return state.Read(ctx, string(l), r)
}

func (l live) Latency(ctx context.Context, queue uint32) (latency.Sample, error) {
	return latency.Measure(ctx, string(l), queue)
}

// linksPatience is how long the links may take to answer. They are a detail of the screen.
const linksPatience = time.Second

func (l live) Links(context.Context) (n Links, err error) {
	var list []links.Report
	if err := unixsock.Query(string(l)+nicless.LinksSuffix, linksPatience, &list); err != nil {
		return n, err
	}
	for _, r := range list {
		for _, p := range r.Peers {
			if p.Up {
				n.Up++
			} else {
				n.Down++
			}
		}
	}
	return n, nil
}
