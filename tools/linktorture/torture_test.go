package linktorture

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nicless/nicless"
	"github.com/nicless/nicless/internal/verdict"
)

const processArgument = "link-process"

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == processArgument {
		if err := Process(os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// needNamespaces skips a test where unprivileged namespaces are forbidden.
func needNamespaces(t *testing.T) {
	t.Helper()
	c := exec.Command("/bin/true")
	c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Geteuid(), Size: 1}}, GidMappings: []syscall.SysProcIDMap{{HostID: os.Getegid(), Size: 1}}}
	if err := c.Run(); err != nil {
		t.Skipf("no user and network namespaces can be made here: %v", err)
	}
}

// Correct clients over RoCE and over a pool lose nothing and see no wrong byte beside all attacks, and
// all attacks reach an engine. A machine that is too busy to decide about the time does not excuse any of
// that. It may need more time until all attacks have had their turn.
func TestLinksUnderAttack(t *testing.T) {
	needNamespaces(t)
	const tries = 3
	for d := 4 * time.Second; ; d *= 2 {
		r, err := Run(t.Context(), Config{Seed: 7, Duration: d, Argv: []string{os.Args[0], processArgument}})
		require.NoError(t, err)
		var text strings.Builder
		require.NoError(t, r.Print(&text))
		t.Log("\n" + text.String())
		require.Contains(t, []verdict.Kind{verdict.OK, verdict.Undecided}, r.Verdict)
		missing := ""
		for k := range kinds {
			if r.Hostile[k.String()] == 0 {
				missing += fmt.Sprintf("; actions of the %v", k)
			}
		}
		for what, n := range map[string]uint64{
			"operations over RoCE":                      r.RoCE.Operations,
			"operations over the pool":                  r.Pool.Operations,
			"junk that has reached the engine":          r.Seen.Strangers,
			"packets in the peer's name":                r.Seen.Forged,
			"words of the scribbler, found to be wrong": r.Seen.Faults,
		} {
			if n == 0 {
				missing += "; " + what
			}
		}
		if missing == "" {
			return
		}
		if d >= 4*time.Second<<(tries-1) {
			t.Fatalf("missing after %v: %s", d, missing)
		}
	}
}

// The plan is determined by the seed, and every kind has its turn, however short the run is.
func TestPlan(t *testing.T) {
	for _, d := range []time.Duration{time.Second, 10 * time.Second, time.Hour} {
		for seed := range uint64(20) {
			p, again, other := NewPlan(seed, d), NewPlan(seed, d), NewPlan(seed+1, d)
			require.Equal(t, p, again)
			require.NotEqual(t, p.Hash(), other.Hash())
			turns := map[Kind]int{}
			least := d
			for _, steps := range p.Slots {
				var sum time.Duration
				for _, s := range steps {
					turns[s.Kind]++
					sum += s.Length
				}
				least = min(least, sum)
			}
			require.Len(t, turns, int(kinds))
			require.GreaterOrEqual(t, least, d/2, "the slots are in use")
		}
	}
}

// pairOf returns a client whose sides are two clients of one engine.
func pairOf(t *testing.T) *client {
	socket := filepath.Join(t.TempDir(), "engine")
	ctx, cancel := context.WithCancel(context.Background())
	ready, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- nicless.Serve(ctx, socket, 0o600, nicless.Config{}, func() { close(ready) }) }()
	<-ready
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-ended)
	})
	witness := verdict.NewWitness(turns, func() []int { return []int{os.Getpid()} })
	t.Cleanup(witness.Close)
	c := &client{w: &wire{out: json.NewEncoder(io.Discard)}, r: rand.New(rand.NewPCG(1, 1)), witness: witness}
	for i := range c.sides {
		var err error
		c.sides[i], err = newSide(fmt.Sprint("side ", i), socket, witness)
		require.NoError(t, err)
	}
	t.Cleanup(func() {
		for _, s := range c.sides {
			require.NoError(t, s.ctx.Close())
		}
	})
	require.NoError(t, c.connect())
	for range 50 {
		require.NoError(t, c.round())
	}
	return c
}

// A client finds each thing that can go wrong.
func TestClientFindsFaults(t *testing.T) {
	for name, row := range map[string]struct {
		spoil func(*client)
		kind  verdict.Kind
		err   string
	}{
		"a wrong byte":       {func(c *client) { c.sides[0].mr.Bytes()[atWords-1]++ }, verdict.WrongBytes, "side 0: byte 524287 of the memory is wrong"},
		"a stranger's bytes": {func(c *client) { copy(c.sides[1].mr.Bytes()[atInbox:], scanMark) }, verdict.OK, errScanned.Error()},
		"an atomic executed twice": {func(c *client) {
			c.sides[1].mr.Add64(atWords+8, 1)
		}, verdict.WrongBytes, "of the memory is wrong"},
		"one more completion": {func(c *client) {
			require.NoError(t, c.sides[0].qp.PostSend(&nicless.SendWR{Op: nicless.Nop, Flags: nicless.Signaled, ID: 1 << 40}))
			require.NoError(t, c.sides[1].qp.PostSend(&nicless.SendWR{Op: nicless.Nop, Flags: nicless.Signaled, ID: 1 << 40}))
		}, verdict.Repeated, "completion 1099511627776"},
		"a completion that is lost": {func(c *client) {
			for _, s := range c.sides {
				// The completion of one work request of the next batch is taken away: the next one comes in
				// its place.
				require.NoError(t, s.qp.PostSend(&nicless.SendWR{Op: nicless.Nop, Flags: nicless.Signaled, ID: s.next + 1}))
			}
		}, verdict.Lost, "expected: completion "},
		"a queue pair that has failed": {func(c *client) {
			for _, s := range c.sides {
				require.NoError(t, s.qp.Modify(&nicless.Attr{Mask: nicless.AttrState, State: nicless.StateERR}))
			}
		}, verdict.Failed, "has failed"},
	} {
		t.Run(name, func(t *testing.T) {
			c := pairOf(t)
			row.spoil(c)
			var err error
			for range 100 {
				if err = c.round(); err != nil {
					break
				}
			}
			require.ErrorContains(t, err, row.err)
			if row.kind != verdict.OK {
				require.Equal(t, row.kind, verdict.Of(err).Kind, err)
			}
			for _, s := range c.sides {
				require.NoError(t, s.reopen())
			}
			require.NoError(t, c.connect())
			require.NoError(t, c.round(), "it goes on with new queue pairs")
		})
	}
}
