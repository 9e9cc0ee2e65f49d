//go:build linux && (amd64 || arm64)

package onlymemory

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"time"

	"github.com/edsrzf/mmap-go"
	"github.com/nicless/nicless"
)

type engineConfig struct {
	file         filePart
	json         string
	pairs, bytes int
	spin         bool
}

const (
	defaultLength = 16 << 20
	mostPairs     = 16
	mostBytes     = 1 << 24
	heartbeat     = 20 * time.Millisecond
)

// serve runs an engine until ctx ends. All that posters need is in the file.
func serve(ctx context.Context, cfg engineConfig) error {
	f, err := openPool(cfg.file)
	if err != nil {
		return err
	}
	defer f.Close()
	first, err := mmap.MapRegion(f, boardSize, mmap.RDWR, 0, cfg.file.offset)
	if err != nil {
		return fmt.Errorf("map %s: %w", cfg.file.path, err)
	}
	defer first.Unmap()
	b, err := boardOf(first)
	if err != nil {
		return err
	}
	b.Store(magicAt, 0) // what is there may describe an engine that is gone

	nic, err := nicless.Open(nicless.Config{
		Memory: &nicless.Memory{File: f, Offset: cfg.file.offset + boardSize},
		Spin:   cfg.spin,
		Log:    slog.New(slog.NewTextHandler(os.Stderr, nil)),
	})
	if err != nil {
		return err
	}
	defer nic.Close()
	var d description
	for range cfg.pairs {
		nodes, err := makePair(nic, len(d.Nodes)+1, cfg.bytes)
		if err != nil {
			return err
		}
		d.Nodes = append(d.Nodes, nodes...)
	}
	text, err := json.Marshal(d)
	if err != nil {
		return err
	}
	if cfg.json != "" {
		if err := writeWhole(cfg.json, text); err != nil {
			return err
		}
	}
	id := rand.Uint64()
	if err := b.put(id, text); err != nil {
		return err
	}
	defer b.Store(magicAt, 0)
	fmt.Printf("engine %016x serves nodes 1 to %d in %s\n", id, len(d.Nodes), cfg.file.path)
	for beats := uint64(1); ; beats++ {
		b.Store(heartbeatAt, beats)
		select {
		case <-ctx.Done():
			return nil
		case <-nic.Done():
			return errors.New("the engine has ended")
		case <-time.After(heartbeat):
		}
	}
}

// writeWhole writes a file that others find with all its bytes or do not find. A file that is not an
// ordinary one, such as /dev/stdout, is written in place.
func writeWhole(path string, text []byte) error {
	if st, err := os.Lstat(path); err == nil && !st.Mode().IsRegular() {
		return os.WriteFile(path, text, 0o644)
	}
	part := path + ".part"
	err := os.WriteFile(part, text, 0o644)
	if err == nil {
		err = os.Rename(part, path)
	}
	if err != nil {
		_ = os.Remove(part)
	}
	return err
}

// openPool opens the file, and makes it longer if it has no bytes.
func openPool(p filePart) (*os.File, error) {
	f, err := os.OpenFile(p.path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	st, err := f.Stat()
	if err == nil && st.Size() == 0 {
		if p.length == 0 {
			p.length = defaultLength
		}
		err = f.Truncate(p.offset + p.length)
	} else if err == nil && p.length > st.Size()-p.offset {
		err = fmt.Errorf("%s has %d bytes; -offset %d and -length %d need more", p.path, st.Size(), p.offset, p.length)
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// makePair makes two connected queue pairs, for the nodes first and first+1. No Go object
// needs to be kept: they live as long as the context.
func makePair(nic *nicless.Context, first, bytes int) ([]node, error) {
	pd, err := nic.AllocPD() // one for each pair: a poster's keys are of no use in other pairs
	if err != nil {
		return nil, err
	}
	var qps [2]*nicless.QP
	nodes := []node{{Peer: first + 1}, {Peer: first}}
	for i := range nodes {
		cq, err := nic.CreateCQ(nicless.CQConfig{Entries: 64, PollOnly: true})
		if err != nil {
			return nil, err
		}
		qps[i], err = pd.CreateQP(
			nicless.QPConfig{SendCQ: cq, MaxSendWR: 64, MaxSendSGE: 1, MaxRecvWR: 1, MaxRecvSGE: 1})
		if err != nil {
			return nil, err
		}
		mr, err := pd.RegisterMemory(wordsSize+areas*bytes, nicless.FullAccess)
		if err != nil {
			return nil, err
		}
		nodes[i].Memory, err = mr.Layout()
		if err != nil {
			return nil, err
		}
		nodes[i].QP, err = qps[i].Layout()
		if err != nil {
			return nil, err
		}
	}
	return nodes, nicless.Pair(qps[0], qps[1], nicless.Connection{})
}
