//go:build linux && (amd64 || arm64)

package verbs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
)

// trace logs a call with the names of its arguments, at level debug.
func (c *call) trace(err error) {
	log := c.p.s.log
	if !log.Enabled(context.Background(), slog.LevelDebug) {
		return
	}
	result := "ok"
	switch {
	case errors.Is(err, errAgain):
		result = "again"
	case err != nil:
		result = errnoName(refusalOf(err).errno)
	}
	log.Debug("verbs call", "program", c.p.name, "device", c.x.device.name(), "call", c.name(),
		"result", result, "arguments", c.arguments())
}

// traced is how many bytes of an argument are logged.
const traced = 64

func (c *call) arguments() string {
	var b strings.Builder
	for _, a := range c.attrs {
		f := c.method.field(a.id)
		fmt.Fprintf(&b, "%s=", f.name)
		switch {
		case f.shape == out:
			fmt.Fprintf(&b, "[%d] ", a.length)
		case a.length > inlineSize:
			fmt.Fprintf(&b, "%x ", a.bytes[:min(len(a.bytes), traced)])
		default:
			fmt.Fprintf(&b, "%#x ", a.data)
		}
	}
	return strings.TrimSuffix(b.String(), " ")
}
