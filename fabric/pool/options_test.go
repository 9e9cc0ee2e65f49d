package pool

import (
	"testing"

	"github.com/nicless/nicless/fabric/optiontest"
	"github.com/stretchr/testify/require"
)

// The comment on Parse, which go doc prints, has every option with its default.
func TestDefaultsInTheComment(t *testing.T) {
	_, err := Parse("p,node=0,nothing=1")
	got, err := Parse("p,node=0," + optiontest.Defaults(t, err))
	require.NoError(t, err)
	want, err := Parse("p,node=0")
	require.NoError(t, err)
	gotPlan, err := plan(&got, defaultSize)
	require.NoError(t, err)
	wantPlan, err := plan(&want, defaultSize)
	require.NoError(t, err)
	require.Equal(t, wantPlan, gotPlan)
	got, want = got.withDefaults(), want.withDefaults()
	require.Equal(t, []any{want.Offset, want.Size, want.Dead, want.Wait}, []any{got.Offset, got.Size, got.Dead, got.Wait})
}
