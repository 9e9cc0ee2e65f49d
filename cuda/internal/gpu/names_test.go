package gpu

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestReadableNames(t *testing.T) {
	for text, want := range map[string]string{
		"GPU 0: _Z8store_toPj, block 0":       "GPU 0: store_to(unsigned int*), block 0",
		"_ZN2ns4kernIiEEvPT_: no; _Z1fv":      "void ns::kern<int>(int*): no; f()",
		"a kernel of C, cu_send_wqe_Zone":     "a kernel of C, cu_send_wqe_Zone",
		"_Znothing of the kind, and the rest": "_Znothing of the kind, and the rest",
	} {
		require.Equal(t, want, readable(text))
	}
}
