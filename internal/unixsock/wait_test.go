package unixsock

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The end of a server does not wait for ever.
func TestWaitFor(t *testing.T) {
	var all sync.WaitGroup
	require.True(t, WaitFor(&all, time.Hour))
	all.Add(1)
	require.False(t, WaitFor(&all, time.Millisecond))
	all.Done()
	require.True(t, WaitFor(&all, time.Hour))
}
