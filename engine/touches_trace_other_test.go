//go:build !linux || !amd64

package engine

import "errors"

const canTrace = false

type tracer struct{}

func newTracer(int) (*tracer, error)             { return nil, errors.ErrUnsupported }
func (*tracer) close()                           {}
func (*tracer) count() (int, error)              { return 0, errors.ErrUnsupported }
func (*tracer) watch(_ []extent) ([]seen, error) { return nil, errors.ErrUnsupported }
