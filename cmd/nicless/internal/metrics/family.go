//go:build linux && (amd64 || arm64)

package metrics

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"
)

// A family is a metric: its name, what it means, and how its value is read of an object. Counters end with
// _total, and units are base units.
type family[T any] struct {
	name, help string
	value      func(*T) float64
	labels     []string
	desc       *prometheus.Desc
}

// kind follows from the name, as OpenMetrics wants it.
func (f *family[T]) kind() prometheus.ValueType {
	if strings.HasSuffix(f.name, "_total") {
		return prometheus.CounterValue
	}
	return prometheus.GaugeValue
}

// describe makes the descriptions of families that have these labels.
func describe[T any](list []family[T], labels ...string) []family[T] {
	for i := range list {
		f := &list[i]
		f.labels = labels
		f.desc = prometheus.NewDesc(f.name, f.help, labels, nil)
	}
	return list
}

// send sends the metrics of an object. with can add to a metric, such as an exemplar; nil adds nothing.
func send[T any](out chan<- prometheus.Metric, list []family[T], object *T, labels []string,
	with func(name string, m prometheus.Metric) prometheus.Metric) {
	for i := range list {
		f := &list[i]
		m := prometheus.MustNewConstMetric(f.desc, f.kind(), f.value(object), labels...)
		if with != nil {
			m = with(f.name, m)
		}
		out <- m
	}
}

// mostLabel is the most bytes of a label's value.
const mostLabel = 96

// label returns a text that others have a part in as the value of a label: a question mark stands for what
// cannot be printed, and for bytes that are no UTF-8. Programs choose their names, and formats and terminals
// are read by other programs.
func label(s string) string {
	s = strings.Map(func(r rune) rune {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, s[:min(len(s), mostLabel)])
	if s == "" {
		return "unknown"
	}
	return s
}

func one(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}

// seconds returns nanoseconds in seconds.
func seconds(ns uint64) float64 { return float64(ns) / 1e9 }
