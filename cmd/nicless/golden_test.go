package main

import (
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/nicless/nicless/internal/vectors"
	"github.com/nicless/nicless/wqe"
	"github.com/stretchr/testify/require"
)

// decoded runs the command on the vector's bytes and returns what it prints.
func decoded(t *testing.T, kind string, b []byte) (got map[string]any) {
	t.Helper()
	var out, errs strings.Builder
	status := run([]string{"decode", "--json", kind, hex.EncodeToString(b)}, strings.NewReader(""), &out, &errs)
	require.Zero(t, status, errs.String())
	require.NoError(t, json.Unmarshal([]byte(out.String()), &got))
	return got
}

// fields returns the fields of the vector, without those that are not in its bytes.
func fields(t *testing.T, v vectors.Vector, without ...string) (want map[string]any) {
	t.Helper()
	require.NoError(t, json.Unmarshal(v.Fields, &want))
	for _, name := range without {
		delete(want, name)
	}
	return want
}

func TestGoldenDecodeSend(t *testing.T) {
	vectors.Golden(t, "send_wqe", "send_wqe", func(t *testing.T, v vectors.Vector) {
		require.Equal(t, fields(t, v), decoded(t, "send", v.Bytes))
	})
}

func TestGoldenDecodeSendRing(t *testing.T) {
	vectors.Golden(t, "send_ring", "send_ring", func(t *testing.T, v vectors.Vector) {
		want := fields(t, v, "wqe_cnt", "slot", "next_producer")
		b := make([]byte, int(want["ds"].(float64))*wqe.UnitSize)
		wqe.Unwrap(b, v.Bytes, uint16(want["wqe_index"].(float64)))
		got := decoded(t, "send", b)
		for _, name := range []string{"signature", "dci_stream", "fence", "ce", "solicited"} {
			if _, ok := want[name]; !ok {
				delete(got, name) // these vectors may leave such fields out
			}
		}
		require.Equal(t, want, got)
	})
}

func TestGoldenDecodeRecv(t *testing.T) {
	vectors.Golden(t, "recv_wqe", "recv_wqe", func(t *testing.T, v vectors.Vector) {
		want := fields(t, v)
		kind := map[any]string{"rq": "recv", "srq": "srq"}[want["queue"]]
		require.Equal(t, want, decoded(t, kind, v.Bytes))
	})
}

func TestGoldenDecodeCQE(t *testing.T) {
	vectors.Golden(t, "cqe", "cqe", func(t *testing.T, v vectors.Vector) {
		kind := map[int]string{64: "cqe", 128: "cqe128"}[len(v.Bytes)]
		require.Equal(t, fields(t, v, "producer_index", "log_cq_size", "slot"), decoded(t, kind, v.Bytes))
	})
}

// The vectors have the fields that are not 0, with those of contexts in one list.
func TestGoldenDecodeCommand(t *testing.T) {
	vectors.Golden(t, "devx_in", "devx_in", func(t *testing.T, v vectors.Vector) {
		got := make(map[string]any)
		add := func(name string, value any) {
			s, text := value.(string)
			if value != 0.0 && !(text && strings.Trim(s, "0x") == "") {
				got[name] = value
			}
		}
		for name, value := range decoded(t, "devx_in", v.Bytes) {
			context, _ := value.(map[string]any)
			for member, value := range context {
				add(name+"."+member, value)
			}
			if context == nil {
				add(name, value)
			}
		}
		require.Equal(t, fields(t, v), got)
	})
}

func TestGoldenDecodeDoorbell(t *testing.T) {
	vectors.Golden(t, "doorbell", "doorbell", func(t *testing.T, v vectors.Vector) {
		want := fields(t, v, "note")
		kind := want["register"].(string)
		if kind == "uar_db" {
			kind = "uar"
		}
		require.Equal(t, want, decoded(t, kind, v.Bytes))
	})
}

func TestGoldenDecodePacket(t *testing.T) {
	vectors.Packets(t, "roce", func(t *testing.T, v vectors.Packet) {
		var want map[string]any
		require.NoError(t, json.Unmarshal(v.Fields, &want))
		got := decoded(t, "packet", slices.Concat(v.IPHeader, v.UDPHeader, v.Bytes))
		require.Equal(t, true, got["icrc_right"])
		for _, name := range []string{"icrc_right", "ip", "udp"} {
			delete(got, name)
		}
		require.Equal(t, want, got)

		delete(want, "grh") // what the IP header makes
		require.Equal(t, want, decoded(t, "packet", v.Bytes))
	})
}
