package hostpath

// A form is a layout of a WQE.
type form uint8

const (
	pointer form = iota // one block with one pointer, built in place
	inline              // one block with inline data, built in place
	atomic8             // an atomic on 8 bytes, one block, built in place
	long                // everything else, built by wqe.Builder
)

// form returns the layout of the WQE for wr. It reads only fields that never change after
// setUp.
func (q *SendRing) form(wr *SendWR, op *opInfo) form {
	if op.short&q.short == 0 {
		return long
	}
	n := len(wr.Data)
	if n == 0 && len(wr.SGE) == 1 {
		length := wr.SGE[0].Length
		switch {
		case op.atomic:
			if length == atomicSize {
				return atomic8
			}
		case length-1 < maxLength: // 1 to maxLength; a function for this would keep form from being inlined
			return pointer
		}
		return long
	}
	if n != 0 && n <= q.shortMax && op.inline && len(wr.SGE) == 0 {
		return inline
	}
	return long
}

// plan returns the layout of the WQE for wr and how many blocks the WQE takes. The error
// says why wr cannot be posted.
func (q *SendRing) plan(wr *SendWR) (f form, n uint64, err error) {
	if wr.Op >= numOps || wr.Flags > allFlags {
		return 0, 0, q.refuse(wr)
	}
	op := &ops[wr.Op]
	if f := q.form(wr, op); f != long {
		return f, 1, nil
	}
	units, err := q.check(wr, op)
	return long, blocks(units), err
}

// lay writes the WQE for wr into the n reserved blocks that begin at count, and notes it in
// the slots. f and n are the results of plan. fence is the fence that the WQE needs because
// of the WQE before it, or 0.
func (q *SendRing) lay(count uint64, f form, n uint64, wr *SendWR, fence uint8) {
	op := &ops[wr.Op]
	switch f {
	case pointer:
		q.layPointer(count, wr, op, fence)
	case inline:
		q.layInline(count, wr, op, fence)
	case atomic8:
		q.layAtomic(count, wr, op, fence)
	default:
		q.layLong(count, n, wr, op, fence)
	}
}
