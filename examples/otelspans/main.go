// Otelspans makes an OpenTelemetry span of each operation of an engine: from its doorbell to its completion.
//
//	go run ./examples/otelspans                        three operations of an engine of its own; one fails
//	go run ./examples/otelspans -socket ENGINE -n 100  the next 100 operations of an engine that runs
//
// Spans are printed as JSON. If OTEL_EXPORTER_OTLP_ENDPOINT is set, they are sent there instead, by OTLP
// over HTTP, as to Jaeger or a collector. An engine executes millions of operations a second, and an
// exporter sends thousands: the SDK's variables choose some, as in OTEL_TRACES_SAMPLER=traceidratio
// OTEL_TRACES_SAMPLER_ARG=0.001.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"

	"github.com/nicless/nicless"
	"github.com/nicless/nicless/trace"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/exporters/stdout/stdouttrace"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
)

func main() {
	socket := flag.String("socket", "", "engine to watch (default: one of its own)")
	n := flag.Int("n", 0, "end after so many operations (0: when the engine ends, or with a signal)")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *socket, *n, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "otelspans:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, socket string, n int, out io.Writer) error {
	if flag.NArg() > 0 || n < 0 {
		return fmt.Errorf("arguments %q, -n %d: there are only flags, and -n is at least 0", flag.Args(), n)
	}
	exporter, err := newExporter(ctx, out)
	if err != nil {
		return err
	}
	if socket == "" {
		return demonstrate(ctx, exporter)
	}
	return watch(ctx, socket, n, exporter, func() error { return nil })
}

// newExporter returns an exporter to where the environment says, or to out.
func newExporter(ctx context.Context, out io.Writer) (sdk.SpanExporter, error) {
	for _, name := range []string{"OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"} {
		if os.Getenv(name) != "" {
			return otlptracehttp.New(ctx)
		}
	}
	return stdouttrace.New(stdouttrace.WithWriter(out), stdouttrace.WithPrettyPrint())
}

// watch exports the operations of an engine. It calls begin when it watches.
func watch(ctx context.Context, socket string, n int, to sdk.SpanExporter, begin func() error) (err error) {
	c, err := nicless.Dial(socket)
	if err != nil {
		return err
	}
	defer c.Close()
	w, err := c.Watch(nicless.WatchFilter{All: true})
	if err != nil {
		return err
	}
	defer w.Close()
	device := resource.NewSchemaless(attribute.String("service.name", "nicless"),
		attribute.String("rdma.device.guid", fmt.Sprintf("%016x", w.Clock().GUID)))
	provider := sdk.NewTracerProvider(sdk.WithBatcher(to), sdk.WithResource(device))
	// The spans in the batch are sent even if ctx has ended.
	defer func() { err = errors.Join(err, provider.Shutdown(context.WithoutCancel(ctx))) }()
	if err := begin(); err != nil {
		return err
	}
	r := newRecorder(provider.Tracer("github.com/nicless/nicless/examples/otelspans"), w.Clock())
	defer r.dropAll()
	for n == 0 || r.ended < n {
		var e trace.Event
		err := w.Next(ctx, &e)
		if errors.Is(err, io.EOF) || ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		r.event(&e)
	}
	return nil
}
