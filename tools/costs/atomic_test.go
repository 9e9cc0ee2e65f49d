package costs

import (
	"testing"

	"github.com/nicless/nicless/model"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// An atomic of a device reads the line and writes it, and the device waits for both; then for a flush.
func TestAtomicOfADevice(t *testing.T) {
	for _, row := range []struct {
		preset string
		prices []string           // of the atomic on a line that the host has modified
		msgs   map[string]float64 // of the atomic and a flush after it
	}{
		{"pcie-asic", []string{"dma_read", "dma_write"}, map[string]float64{"tlp_mrd": 1, "tlp_cpld": 1, "tlp_mwr": 1}},
		{"cxl1-fpga", []string{"device", "link", "agent", "forward", "device"}, map[string]float64{"d2h_req_rdown": 1, "h2d_rsp_go": 1, "cachedata_h2d_data": 1,
			"d2h_req_dirtyevict": 1, "h2d_rsp_gowritepull": 1, "cachedata_d2h_data": 1}},
	} {
		p, err := Builtin(row.preset)
		require.NoError(t, err)
		m := NewPricer(p, map[string]model.Structure{"rx": model.RxPayload})
		word := model.Line{Region: "rx", Index: 0}
		require.NoError(t, m.Add(model.Access{Seq: 1, Who: model.Host, Op: model.Store, Kind: model.Payload, Why: model.Once, Line: word, N: 1}))
		require.NoError(t, m.Add(model.Access{Seq: 2, Who: model.Dev, Op: model.RMW, Kind: model.Payload, Why: model.Follow, Line: word, N: 1, After: []int{1}, Req: 1},
			model.Access{Seq: 3, Who: model.Dev, Op: model.Flush, Kind: model.Payload, Why: model.Once, Line: word, N: 1, Req: 1},
			model.Access{Seq: 4, Who: model.Dev, Op: model.Load, Kind: model.Payload, Why: model.Once, Line: word, N: 1, Req: 2}))
		want := 0.0
		for _, name := range row.prices {
			want += p.Price[name].Value
		}
		assert.InDelta(t, want, m.spans[1].End-m.spans[1].Begin, 1e-9, row.preset)
		assert.Equal(t, m.spans[1].End, m.spans[2].Begin, "%s: the device waits for its atomic", row.preset)
		assert.Equal(t, m.spans[2].End, m.spans[3].Begin, "%s: the device waits for its flush", row.preset)
		assert.Equal(t, row.msgs, m.reqs[1].count, "%s: messages of the atomic and the flush", row.preset)
	}
}
