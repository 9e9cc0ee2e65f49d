//go:build linux && (amd64 || arm64)

package metrics

import (
	"bytes"
	"errors"
	"net/http"

	"github.com/prometheus/common/expfmt"
)

// A format is one in which the metrics are served. There are only these, so that few pages are made however
// requests vary.
type format string

var (
	plainText   = format(expfmt.NewFormat(expfmt.TypeTextPlain))
	openMetrics = format(expfmt.NewFormat(expfmt.TypeOpenMetrics))
)

// formatFor returns the format that a request prefers.
func formatFor(h http.Header) format {
	f := expfmt.NegotiateAccept(h, expfmt.Format(openMetrics), expfmt.Format(plainText))
	if f.FormatType() == expfmt.TypeOpenMetrics {
		return openMetrics
	}
	return plainText
}

// page returns the metrics in a format. Several requests get the same bytes, which nobody may change.
func (e *Exporter) page(f format) ([]byte, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := e.refresh(); err != nil {
		return nil, err
	}
	if p := e.pages[f]; p != nil {
		return p, nil
	}
	var b bytes.Buffer
	encoder := expfmt.NewEncoder(&b, expfmt.Format(f))
	for _, m := range e.families {
		if err := encoder.Encode(m); err != nil {
			return nil, err
		}
	}
	c, ok := encoder.(expfmt.Closer)
	if !ok {
		return nil, errors.New("metrics: this encoder does not end its page")
	}
	if err := c.Close(); err != nil {
		return nil, err
	}
	e.pages[f] = b.Bytes()
	return e.pages[f], nil
}
