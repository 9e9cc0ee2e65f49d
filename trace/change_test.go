package trace

import (
	"encoding/hex"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestChange(t *testing.T) {
	c := Change{Addr: 0x1122334455667788, Length: 4096, Key: 0xa1b2c3d4, Was: 1, Is: 2}
	b := c.Append(nil)
	assert.Equal(t, "8877665544332211"+"0010000000000000"+"d4c3b2a1"+"01000000"+"02000000", hex.EncodeToString(b))
	got, err := ParseChange(append(b, 0xff))
	require.NoError(t, err)
	assert.Equal(t, c, got)
	_, err = ParseChange(b[:ChangeSize-1])
	require.EqualError(t, err, "trace: 27 bytes of a change; it has 28")
	assert.Equal(t, "entry", ChangedEntry.String())
	assert.Equal(t, "part-9", ChangedPart(9).String())
	assert.True(t, ChangedSharedEntry.Shared())
	assert.False(t, ChangedWQE.Shared())
}
