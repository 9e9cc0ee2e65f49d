package server

import (
	"fmt"
	"os"
	"testing"

	"github.com/nicless/nicless/engine"
	"github.com/nicless/nicless/internal/control"
	"github.com/stretchr/testify/require"
)

// The log names a client by what the kernel says about the client. The name that the client
// gives follows in quotes. A client can give a name only once.
func TestAClientDoesNotNameItself(t *testing.T) {
	r := newRig(t, engine.Config{})
	c := r.dial(r.serve())
	forged := hello
	forged.Name = "pid 1 uid 0\nroot"
	require.Nil(t, c.call(control.OpHello, &forged, &control.Welcome{}))
	require.Equal(t, []string{fmt.Sprintf(`pid %d uid %d "pid 1 uid 0?root"`, os.Getpid(), os.Getuid())}, r.held().Clients)
	again := c.call(control.OpHello, &hello, &control.Welcome{})
	require.Equal(t, control.CodeInvalid, again.Code)
	require.Contains(t, again.Text, "twice")
	require.Nil(t, c.call(control.OpAllocPD, &control.Empty{}, &control.PD{}), "the connection goes on")
}
