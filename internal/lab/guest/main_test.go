package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParse(t *testing.T) {
	require.Equal(t, map[string]string{"seconds": "90", "cmd": "poster pong; ping -c 1 a", "node": "1"},
		parse("console=ttyS0 lab.seconds=90 collab.x=2=lab lab.cmd=\"poster pong; ping -c 1 a\" lab.node=1\n"))
	require.Empty(t, parse("quiet"))
}

func TestSecondsAreNeeded(t *testing.T) {
	for _, text := range []string{"", "0", "-1", "soon"} {
		require.ErrorContains(t, expire(text), "lab.seconds=", text)
	}
}
