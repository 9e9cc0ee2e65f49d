package programs

import (
	"os"
	"os/exec"
	"testing"

	"github.com/nicless/nicless/internal/share"
	"github.com/stretchr/testify/require"
)

// Firmware commands, umems and UAR pages of DEVX are there for programs that may have them, and for no
// others.
func TestDEVX(t *testing.T) {
	t.Parallel()
	path := check(t, "devx")
	const works, off = "devx: commands, umems, mistakes, pages: ok\n", "devx: off: ok\n"
	l := newLab(t, "--no-devx")
	require.Contains(t, l.run(path, "off"), off)
	l.flags = []string{"--explain"}
	said := l.run(path)
	require.Contains(t, said, works)
	require.Contains(t, said, "refused with EREMOTEIO: QUERY_ROCE_ADDRESS: entry 64; there are 64 (bad parameter, syndrome 0x")
	l.works()
	l = newLab(t)
	l.flags = []string{"--devx", "--slow-memory"}
	require.Contains(t, l.run(path), works)

	without := &lab{t: t, engineFlags: []string{"--no-devx"}}
	without.open()
	require.Contains(t, without.run(path, "off"), off)
	without.flags = []string{"--devx"}
	require.Contains(t, without.run(path), works)
}

// Queues that firmware commands have made carry data, in the ways of the libraries that make such queues.
func TestDEVXQueues(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.flags = []string{"--devx"}
	require.Contains(t, l.run(check(t, "queues")), "devx_queues: pairs, alone, collapsed, together, shared, registers alone: ok\n")
	l.works()
}

// Firmware commands that have to fail do, with errno, status and explanation, and change nothing.
func TestDEVXMisuse(t *testing.T) {
	t.Parallel()
	path := check(t, "mailbox")
	for i, mode := range modesNow() {
		if !share.Has(i) {
			continue
		}
		t.Run(mode.name, func(t *testing.T) {
			l := newLab(t, append([]string{"--devx", "--explain"}, mode.flags...)...)
			said := l.run(path)
			require.Contains(t, said, "devx_misuse: lengths, fields, handles, states, subscriptions, memory: ok\n")
			for _, why := range []string{
				"refused with EREMOTEIO: CREATE_CQ: log_cq_size (0x1c bits 28..24) is 0x1f: at most ",
				"which has 4096 bytes",
				"refused with EREMOTEIO: CREATE_QP: pd (0x1c bits 23..0) is 0xffffff: this context has no such protection domain",
				"is a firmware object; a QP is needed",
				"refused with EBUSY: umem ",
			} {
				require.Contains(t, said, why)
			}
			l.works()
		})
	}
}

// Programs that use firmware commands in wrong ways, and are killed in the middle, do not disturb a program
// whose queues were made by such commands, and leave nothing behind.
func TestDEVXHostile(t *testing.T) {
	t.Parallel()
	path := check(t, "hostile")
	l := newLab(t, "--devx")
	before := l.holds()
	in, end, err := os.Pipe()
	require.NoError(t, err)
	defer func() { _ = in.Close() }()
	victim := startWith(t, l.user, func(c *exec.Cmd) { c.Stdin = in }, l.argv(path, "victim")...)
	victim.says("victim runs")
	seeds, steps := 2, "1500"
	if *whole {
		seeds, steps = 12, "5000"
	}
	for seed := range seeds {
		if !share.Has(seed) {
			continue
		}
		killed := l.start(path, "attack", itoa(seed+1000), "1000000")
		require.Contains(t, l.run(path, "attack", itoa(seed+1), steps), "objects left: ok\n")
		killed.says("devx_hostile: attacks")
		killed.kill()
		require.False(t, victim.ended(), victim.said.String())
	}
	require.NoError(t, end.Close())
	require.Contains(t, victim.succeeds(), "ms: ok\n")
	l.works()
	l.eventually("everything is released", func() bool { return l.holds() == before })
}
