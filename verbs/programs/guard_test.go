package programs

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Under --guard-posts, WQEs whose words arrive after the record and the register are executed once, and
// whole. Without it, the device executes what it finds.
func TestGuardPosts(t *testing.T) {
	t.Parallel()
	path := check(t, "late")
	const works, executed = "lateposts: 600 rounds of stores in any order: ok\n", "lateposts: an empty slot was executed, as announced\n"
	l := newLab(t, "--guard-posts", "--explain")
	said := notHeldUp(l, path)
	require.Contains(t, said, works)
	require.NotContains(t, said, "explanation")
	require.Contains(t, newLab(t, "--no-guard-posts").run(path, "unguarded"), executed)

	on := &lab{t: t, engineFlags: []string{"--guard-posts"}}
	on.open()
	require.Contains(t, notHeldUp(on, path), works)
	on.flags = []string{"--no-guard-posts"}
	require.Contains(t, on.run(path, "unguarded"), executed)
}

// notHeldUp runs lateposts until a run's stores took no longer than a GPU's can.
func notHeldUp(l *lab, path string) (said string) {
	for said = l.run(path); strings.Contains(said, "lateposts: held up"); said = l.run(path) {
		l.t.Log(said)
	}
	return said
}

// Programs that post through libmlx5, write the rings themselves, or make their queues by firmware commands
// work with guarded queues as with others, and no doorbell of theirs is explained.
func TestProgramsOnGuardedQueues(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"dc":      "dc: 2 targets, 4 operations, 5 mistakes: ok\n",
		"mkey":    "mkey: 3 layouts, 9 mistakes: ok\n",
		"rawpost": "rawpost: 3393 WQEs into rings of 256 blocks: ok\n",
		"queues":  "devx_queues: pairs, alone, collapsed, together, shared, registers alone: ok\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			said := newLab(t, "--guard-posts", "--devx", "--explain").run(check(t, name))
			require.Contains(t, said, want)
			require.NotContains(t, said, "its UAR page says")
		})
	}
}
