//go:build !race

package accel_test

// The race detector does not know what orders the stores of lanes, and would find the races that these tests
// plant.

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/nicless/nicless"
	"github.com/nicless/nicless/accel"
	"github.com/nicless/nicless/accel/ptx"
	"github.com/nicless/nicless/internal/explore"
	"github.com/stretchr/testify/require"
)

// A contest is lanes that post to one queue, which is short enough to be full.
type contest struct {
	queue           nicless.QPConfig
	blocks, threads uint32
	rounds          int
}

// The contests. In a crowd the ring is full as a rule. A few lanes without records to fall back to lose a
// doorbell for good. Warps have lanes that see each other's stores sooner than other blocks do.
var (
	crowd = contest{nicless.QPConfig{MaxSendWR: 4}, 16, 1, 8}
	few   = contest{nicless.QPConfig{MaxSendWR: 8, Doorbells: nicless.DoorbellRegister}, 3, 1, 100}
	warps = contest{nicless.QPConfig{MaxSendWR: 64}, 4, 32, 4}
)

// try runs the kernel put with stores that others see late, and returns what went wrong: nothing, if the
// kernel has the order that it needs.
func (c contest) try(ctx context.Context, t *testing.T, text string, seed uint64) error {
	p := newCUDAPosterOf(t, text, c.queue)
	times := posterSize + queueMemory
	params, err := p.put.Arguments(p.room, c.rounds, p.room.Address()+uint64(times))
	require.NoError(t, err)
	err = p.put.Run(ctx, ptx.Launch{
		Grid: [3]uint32{c.blocks, 1, 1}, Block: [3]uint32{c.threads, 1, 1}, Params: params, Late: ptx.NewLate(seed),
	})
	if err != nil {
		return err
	}
	word := func(at int) uint32 { return binary.LittleEndian.Uint32(p.room.Bytes()[at:]) }
	if wrong, syndrome := word(posterWrong), word(posterSyndrome); wrong != 0 || syndrome != 0 {
		return fmt.Errorf("%d wrong words, syndrome %#x", wrong, syndrome)
	}
	for k, took := range accel.Slice[uint64](p.room)[times/8:][:int(c.blocks*max(c.threads/32, 1))*c.rounds] {
		if took == 0 {
			return fmt.Errorf("round %d has not been done", k)
		}
	}
	return nil
}

func posterText(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("testdata/poster.ptx")
	require.NoError(t, err)
	return string(text)
}

// The posting of accel/cuda/poster.cu has the fences that it needs: with stores that others see late, the
// device and the other lanes still see whole requests, and every word arrives. With -explore there are 150
// seeds, in a minute or two.
func TestCUDAPosterLate(t *testing.T) {
	text := posterText(t)
	for _, c := range []contest{crowd, few, warps} {
		if c.rounds > 50 {
			c.rounds = 50
		}
		for seed := range uint64(explore.Rounds(10, 50)) {
			if err := c.try(t.Context(), t, text, seed); err != nil {
				require.NoError(t, err, "seed %d of %+v", seed, c)
			}
		}
	}
}

// An ordering is an instruction of poster.ptx that orders others, and that is missed.
type ordering struct {
	line    int
	text    string
	without string // what stands there instead
}

// orderings are those whose absence spoils data. The others of poster.ptx are missed as a doorbell that is
// lost, which takes time to tell, or have not been seen to be missed.
var orderings = []ordering{
	{323, "fence.acq_rel.sys;", ""},
	{377, "ld.acquire.sys.b64 %rd128, [%rd129];", ""},
	{436, "atom.release.gpu.cas.b64 %rd151, [%rd9], %rd126, %rd154;", ""},
	{698, "fence.acq_rel.sys;", ""},
	{698, "fence.acq_rel.sys;", "\tfence.acq_rel.gpu;"},
	{745, "ld.acquire.gpu.b64 %rd287, [%rd9];", ""},
	{760, "ld.acquire.sys.b64 %rd291, [%rd292];", ""},
	{820, "atom.release.gpu.cas.b64 %rd312, [%rd9], %rd289, %rd315;", ""},
}

// Without such an instruction, or with it made relaxed, one of a few seeds shows wrong data.
func TestCUDAPosterNeedsItsOrderings(t *testing.T) {
	lines := strings.Split(posterText(t), "\n")
	for _, o := range orderings {
		t.Run(fmt.Sprint(o.line, o.without), func(t *testing.T) {
			require.Equal(t, o.text, strings.TrimSpace(lines[o.line-1]))
			require.True(t, shows(t, crowd, o.mutate(lines)), "%s is not missed", o.text)
		})
	}
}

// mutate returns the kernel's text without the ordering.
func (o ordering) mutate(lines []string) string {
	changed := append([]string(nil), lines...)
	at := &changed[o.line-1]
	*at = strings.NewReplacer(".acquire.", ".relaxed.", ".release.", ".relaxed.").Replace(*at)
	if strings.Contains(o.text, "fence") {
		*at = o.without
	}
	return strings.Join(changed, "\n")
}

// shows reports whether a seed shows that a kernel is wrong. The first twenty do on a machine that has a core
// for the device; the device is another thread, so a busy machine may need more. A kernel that has lost a
// doorbell waits for ever; it is given up, and counts as right.
func shows(t *testing.T, c contest, text string) bool {
	t.Helper()
	for seed := range uint64(200) {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		err := c.try(ctx, t, text, seed)
		cancel()
		if err != nil && !errors.Is(err, context.DeadlineExceeded) {
			t.Logf("seed %d: %v", seed, err)
			return true
		}
	}
	return false
}
