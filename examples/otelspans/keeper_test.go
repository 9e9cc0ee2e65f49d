package main

import (
	"context"

	"go.opentelemetry.io/otel/sdk/trace/tracetest"
)

// A keeper keeps its spans when it is shut down; an InMemoryExporter does not.
type keeper struct {
	*tracetest.InMemoryExporter
	all tracetest.SpanStubs
}

func (k *keeper) Shutdown(ctx context.Context) error {
	k.all = k.GetSpans()
	return k.InMemoryExporter.Shutdown(ctx)
}
