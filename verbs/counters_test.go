package verbs

import (
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/nicless/nicless/internal/clock"
	"github.com/nicless/nicless/internal/nic"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// An asked is a device that counts how often it is asked for its counts.
type asked struct {
	nic.Device
	times atomic.Int64
}

func (a *asked) PortCounts() []nic.PortCounts {
	times := uint64(a.times.Add(1))
	counts := a.Device.PortCounts()
	for n := range counts {
		counts[n][nic.GotWrites] = times
	}
	return counts
}

// readCounter sends NV_COUNTER.
func (r *rig) readCounter(path string) (text string, errno unix.Errno) {
	h, b, files := r.request(opCounter, 0, append([]byte(path), 0))
	require.Empty(r, files)
	if h.error != 0 {
		return "", unix.Errno(h.error)
	}
	return string(b), 0
}

// Each file of a counter that is in the tree can be read by NV_COUNTER, with the same text, and nothing else
// can.
func TestCounterFiles(t *testing.T) {
	r := newRig(t)
	for _, d := range r.s.devices {
		files := r.s.counterFiles(d)
		require.Len(t, files, 21+28+1)
		for path, want := range files {
			text, errno := r.readCounter("/anywhere/" + treeName + "/" + path)
			require.Zero(t, errno, path)
			require.Equal(t, want+"\n", text, path)
		}
		dir := d.ibDir() + "/ports/1/"
		for _, path := range []string{"", "/", dir, dir + "counters", dir + "counters/", dir + "counters/none", dir + "state",
			dir + "hw_counters/port_xmit_data", dir + "counters/lifespan", dir + "counters/../counters/port_xmit_data",
			dir + "counters/port_xmit_data/", d.ibDir() + "/ports/2/counters/port_xmit_data"} {
			_, errno := r.readCounter("/anywhere/" + treeName + "/" + path)
			require.Equal(t, eNOENT, errno, path)
		}
		_, errno := r.readCounter(dir + "counters/port_xmit_data")
		require.Equal(t, eNOENT, errno, "it is not in a tree")
	}
	_, _, err := r.p.counter(wireHeader{}, make([]byte, maxCounterPath+1), nil)
	require.ErrorIs(t, err, errWire)
}

// A program that reads counters a million times without a pause makes the engine count at most once in each
// lifespan for all devices together, and other programs are served.
func TestMillionReadsOfCounters(t *testing.T) {
	const reads = 1_000_000
	s := newServing(t)
	e := &asked{Device: s.engine}
	s.engine = e
	greedy, other := s.rig(t), s.rig(t)
	program, _ := other.open(0)
	var requests [][]byte // of all devices in turn
	for _, d := range s.devices {
		path := "/x/" + treeName + "/" + d.ibDir() + "/ports/1/hw_counters/rx_write_requests"
		requests = append(requests, append([]byte(path), 0))
	}
	require.Len(t, requests, 2)
	done := make(chan error, 1)
	begin := clock.Now()
	go func() {
		for i := range reads {
			if _, _, err := greedy.p.counter(wireHeader{}, requests[i%len(requests)], nil); err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	served := 0
	for reading := true; reading; {
		select {
		case err := <-done:
			require.NoError(t, err)
			reading = false
		default:
			other.ok(other.queryPort(program))
			served++
		}
	}
	most := int64(clock.Duration(clock.Now()-begin)/lifespan) + 1
	require.LessOrEqual(t, e.times.Load(), most)
	require.NotZero(t, served)
}

// Trees of namespaces are made while the files of counters are renewed. Their files have the texts that the
// server takes note of, and those of counters are no links.
func TestCounterFilesBesideNewTrees(t *testing.T) {
	s := newServing(t)
	s.engine = &asked{Device: s.engine} // each renewal has other texts
	dir := t.TempDir()
	require.NoError(t, s.writeTrees(dir))
	stop, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		for {
			select {
			case <-stop:
				ended <- nil
				return
			default:
			}
			if err := s.renewTree(s.nowhere); err != nil {
				ended <- err
				return
			}
		}
	}()
	port := s.devices[0].ibDir() + "/ports/1/"
	for i := range 4 {
		n := newNetns(netnsKey{cookie: uint64(i + 1)})
		require.NoError(t, s.rescan(n, nil), fmt.Sprint(i))
		root := filepath.Join(dir, n.tree.name, treeName)
		for path, text := range n.tree.files {
			have, err := os.ReadFile(filepath.Join(root, path))
			require.NoError(t, err)
			require.Equal(t, text+"\n", string(have), path)
		}
		for path, links := range map[string]bool{"state": true, "counters/port_xmit_data": false} {
			var st unix.Stat_t
			require.NoError(t, unix.Stat(filepath.Join(root, port+path), &st))
			require.Equal(t, links, st.Nlink > 1, path)
		}
	}
	close(stop)
	require.NoError(t, <-ended)
}
