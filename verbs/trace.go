//go:build linux && (amd64 || arm64)

package verbs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/nicless/nicless/field/devx"
	"github.com/nicless/nicless/verbs/internal/abi"
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
	args := []any{"program", c.p.name, "device", c.x.device.name, "call", c.name(),
		"result", result, "arguments", c.arguments()}
	if cmd := c.firmwareCommand(); cmd != "" {
		args = append(args, "firmware", cmd)
	}
	log.Debug("verbs call", args...)
}

// firmwareCommand returns the firmware command that a call passes (DEVX), with its fields, in one line; "" if
// the call passes none.
func (c *call) firmwareCommand() string {
	if c.method == nil || c.method.object != abi.MLX5ObjectDEVX && c.method.object != abi.MLX5ObjectDEVXObj {
		return ""
	}
	for i := range c.method.fields {
		f := &c.method.fields[i]
		if cmd := c.bytes(f.id); f.name == "command" && f.shape == in && len(cmd) != 0 {
			return devx.Summary(cmd)
		}
	}
	return ""
}

// withCommand adds the firmware command that a call passes to why the call is refused: many fields of a
// mailbox depend on each other, and a program shows none of them.
func (c *call) withCommand(r *refusal) *refusal {
	cmd := c.firmwareCommand()
	if cmd == "" {
		return r
	}
	told := *r
	told.text += "; the command: " + cmd
	return &told
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
