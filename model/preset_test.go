package model

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestBuiltin(t *testing.T) {
	for _, name := range Names() {
		p, err := Builtin(name)
		require.NoError(t, err)
		t.Log(name, p.Fabric.Name, len(p.Price))
	}
}
