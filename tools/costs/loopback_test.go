package costs

import (
	"bytes"
	"testing"

	"github.com/nicless/nicless/model"
	"github.com/stretchr/testify/require"
)

// The trace of the experiment is written and read.
func TestLoopbackIsWritten(t *testing.T) {
	trace, err := Loopback(1500, 2)
	require.NoError(t, err)
	var b bytes.Buffer
	require.NoError(t, model.WriteTrace(&b, trace))
	again, err := model.ReadTrace(&b)
	require.NoError(t, err)
	require.Equal(t, trace, again)
}
