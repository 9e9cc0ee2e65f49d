package programs

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A program that is killed in the middle of a kernel harms neither the engine nor another client, which posts
// all the while and checks each word. The engine keeps nothing of it: neither a descriptor nor its memory.
func TestKilledWhilePosting(t *testing.T) {
	t.Parallel()
	program, endless := compile(t, "testdata/posting.cu"), compile(t, "testdata/runtime.cu")
	socket, e := engineProcess(t)
	alone := descriptors(t, e)
	other := startWith(t, nil, true, program, socket)
	rounds := func() int { return strings.Count(other.said.String(), "round ") }
	other.awaits(t, "the other client posts", func() bool { return rounds() > 0 })
	before := descriptors(t, e)
	require.Greater(t, len(before), len(alone))
	for range 3 {
		victim := start(t, nil, program, socket, "endless")
		victim.awaits(t, "its kernel posts", func() bool { return strings.Contains(victim.said.String(), "it posts\n") })
		with, at := len(descriptors(t, e)), rounds()
		require.NoError(t, victim.cmd.Process.Kill())
		_, err := victim.ends(t)
		require.ErrorContains(t, err, "signal: killed")
		e.awaits(t, "the engine has dropped the client", func() bool {
			now := len(descriptors(t, e))
			return now < with && now <= len(before) // before may have one that was about to be closed
		})
		other.awaits(t, "the other client goes on", func() bool { return rounds() >= at+2 })
	}
	idle := start(t, nil, endless, "endless") // its kernel computes, and never ends
	idle.awaits(t, "its kernel runs", func() bool { return strings.Contains(idle.said.String(), "it runs\n") })
	require.NoError(t, idle.cmd.Process.Kill())
	at := rounds()
	other.awaits(t, "the other client goes on", func() bool { return rounds() >= at+2 })
	require.NoError(t, other.in.Close())
	require.Contains(t, other.succeeds(t), "ok\n")
	e.awaits(t, "the engine has dropped all clients", func() bool { return len(descriptors(t, e)) == len(alone) })
	require.ElementsMatch(t, alone, descriptors(t, e))
}

// descriptors returns what the descriptors of a process are: files, memory, sockets.
func descriptors(t *testing.T, p *program) (list []string) {
	t.Helper()
	dir := fmt.Sprintf("/proc/%d/fd", p.cmd.Process.Pid)
	all, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, d := range all {
		if name, err := os.Readlink(dir + "/" + d.Name()); err == nil {
			list = append(list, name)
		}
	}
	return list
}
