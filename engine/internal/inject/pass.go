//go:build linux && (amd64 || arm64)

package inject

import (
	"github.com/nicless/nicless/engine/internal/order"
	"github.com/nicless/nicless/fault"
	"github.com/nicless/nicless/wqe"
)

// Explain returns the explanation of bytes that became visible against their order, as a format and its
// arguments.
func (o *Order) Explain(x *order.Pass) (format string, args []any) {
	b, a := o.Window.WQE(&x.Piece), o.Window.WQE(&x.Before)
	args = []any{o.Rule, x.Piece.Begin, x.Piece.Begin + x.Piece.N - 1, wqe.Opcode(b.Opcode), b.Index,
		x.Before.Begin, x.Before.Begin + x.Before.N - 1}
	if a == b {
		return "injected by rule %v: bytes %d..%d of %v %d became visible before its bytes %d..%d: " +
			"bytes of one message have no order before its completion", args
	}
	format = "injected by rule %v: bytes %d..%d of %v %d became visible before bytes %d..%d of %v %d: " +
		"nothing orders them before their completions"
	if o.Rule.Order == fault.Weak {
		format = "injected by rule %v: bytes %d..%d of %v %d became visible before bytes %d..%d of %v %d: " +
			"no fence, and the key allows relaxed ordering"
	}
	return format, append(args, wqe.Opcode(a.Opcode), a.Index)
}
