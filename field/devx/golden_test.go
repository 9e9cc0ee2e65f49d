package devx_test

import (
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nicless/nicless/field"
	"github.com/nicless/nicless/field/devx"
	"github.com/nicless/nicless/internal/vectors"
)

// The vectors are commands that were recorded from NVSHMEM, DOCA GPUNetIO and UCX. Their fields, those that
// are not 0, were read with mlx5_ifc.h, not with this package.
func TestGoldenCommands(t *testing.T) {
	vectors.Golden(t, "devx_in", "devx_in", func(t *testing.T, v vectors.Vector) {
		var want map[string]any
		require.NoError(t, json.Unmarshal(v.Fields, &want))
		tree, err := devx.Describe(v.Bytes, 0)
		require.NoError(t, err)
		assert.Equal(t, want, set(t, tree), "fields that are not 0")

		c := devx.Find(binary.BigEndian.Uint16(v.Bytes))
		require.NotNil(t, c)
		assert.Empty(t, c.Unknown(v.Bytes))
		got := make([]byte, len(v.Bytes))
		for name, value := range want {
			put(t, got, c, name, value)
		}
		assert.Equal(t, []byte(v.Bytes), got, "encoded")
	})
}

// set returns the fields of a tree that are not 0. Names of fields in contexts have the context before them.
func set(t *testing.T, tree field.Tree) map[string]any {
	t.Helper()
	text, err := json.Marshal(tree)
	require.NoError(t, err)
	var all map[string]any
	require.NoError(t, json.Unmarshal(text, &all))
	list := make(map[string]any)
	var add func(prefix string, m map[string]any)
	add = func(prefix string, m map[string]any) {
		for name, v := range m {
			switch v := v.(type) {
			case map[string]any:
				add(prefix+name+".", v)
			case string:
				if strings.Trim(v, "0x") != "" {
					list[prefix+name] = v
				}
			default:
				if v != 0.0 {
					list[prefix+name] = v
				}
			}
		}
	}
	add("", all)
	return list
}

// put sets a field by its name, as set returns it.
func put(t *testing.T, mailbox []byte, c *devx.Command, name string, value any) {
	t.Helper()
	for _, g := range c.In {
		prefix := ""
		if g.Context {
			prefix = g.Name + "."
		}
		for _, f := range g.Fields {
			if prefix+f.Name != name {
				continue
			}
			switch v := value.(type) {
			case float64:
				f.Put(mailbox, uint64(v))
			case string:
				if f.Bytes != 0 {
					raw, err := hex.DecodeString(v)
					require.NoError(t, err)
					copy(f.Raw(mailbox), raw)
					return
				}
				n, err := strconv.ParseUint(v, 0, 64)
				require.NoError(t, err)
				f.Put(mailbox, n)
			}
			return
		}
	}
	t.Fatalf("%s has no field %s", c.Name, name)
}
