package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/nicless/nicless/internal/await"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	otel "go.opentelemetry.io/otel/trace"
)

// The spans of three operations: from the doorbell to the completion, with what they did.
func TestSpansOfOperations(t *testing.T) {
	kept := &keeper{InMemoryExporter: tracetest.NewInMemoryExporter()}
	require.NoError(t, demonstrate(await.Context(t), kept))
	spans := kept.all
	require.Len(t, spans, operations)
	for i, name := range []string{"RDMA_WRITE", "ATOMIC_FA", "RDMA_WRITE"} {
		s := spans[i]
		require.Equal(t, name, s.Name)
		require.Equal(t, otel.SpanKindClient, s.SpanKind)
		have := map[string]any{}
		for _, a := range s.Attributes {
			have[string(a.Key)] = a.Value.AsInterface()
		}
		require.Equal(t, name, have["rdma.operation.name"])
		require.Equal(t, int64(i), have["rdma.wqe.index"])
		require.Equal(t, "RC", have["rdma.transport"])
		require.Equal(t, "otelspans.test", have["process.executable.name"])
		require.NotZero(t, have["rdma.peer.queue_pair"])
		var events []string
		for _, e := range s.Events {
			events = append(events, e.Name)
			require.False(t, e.Time.Before(s.StartTime) || e.Time.After(s.EndTime), "%s is within the span", e.Name)
		}
		require.Subset(t, events, []string{"doorbell", "fetch", "completion"})
		if i < operations-1 {
			require.Contains(t, events, "execute")
			require.Equal(t, codes.Unset, s.Status.Code)
			continue
		}
		require.Contains(t, events, "fail")
		require.Contains(t, events, "explanation")
		require.Equal(t, codes.Error, s.Status.Code)
		require.Equal(t, "key-stale", have["error.type"])
	}
	require.Contains(t, spans[0].Resource.String(), "service.name=nicless")
}

// Without an endpoint, spans are printed as JSON.
func TestSpansArePrinted(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, run(await.Context(t), "", 0, &out))
	d := json.NewDecoder(&out)
	for range operations {
		var span struct{ Name string }
		require.NoError(t, d.Decode(&span))
		require.NotEmpty(t, span.Name)
	}
	require.ErrorIs(t, d.Decode(new(any)), io.EOF)
}

// With an endpoint, they are sent there.
func TestSpansAreSent(t *testing.T) {
	var mu sync.Mutex
	var got []string
	collector := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		got = append(got, r.URL.Path+" "+string(body))
	}))
	defer collector.Close()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.URL)
	t.Setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "none")
	var out bytes.Buffer
	require.NoError(t, run(await.Context(t), "", 0, &out))
	require.Empty(t, out.String())
	require.Len(t, got, 1)
	require.Contains(t, got[0], "/v1/traces ")
	require.Contains(t, got[0], "ATOMIC_FA")
}
