//go:build !linux

package pool

import (
	"errors"
	"time"
)

// A systemAlarm is a timer of the kernel. There is none.
type systemAlarm struct{}

func newSystemAlarm() *systemAlarm { return nil }

func (*systemAlarm) ring()  {}
func (*systemAlarm) close() {}

func (*systemAlarm) wait(time.Duration, func() bool) error { return errors.ErrUnsupported }
