package model

import (
	"bufio"
	"fmt"
	"io"
	"slices"
)

// WriteTrace writes a trace. It refuses what ReadTrace would refuse. The fields of an access that the
// operation Work does not have are left out.
func WriteTrace(w io.Writer, t Trace) error {
	out := bufio.NewWriter(w)
	head, err := appendHeader(nil, t.Regions)
	if err != nil {
		return &TraceError{1, "regions", err}
	}
	out.Write(head)
	c := traceChecker{regions: t.Regions}
	var b []byte
	for i := range t.Accesses {
		a := t.Accesses[i]
		if a.Op == Work {
			a = Access{Seq: a.Seq, After: a.After, Who: a.Who, Op: Work, N: 1, Req: a.Req}
		}
		if err := c.check(&a); err != nil {
			return (&TraceReader{line: i + 2}).errorAt(err)
		}
		b = appendAccess(b[:0], &a)
		if _, err := out.Write(b); err != nil {
			return err
		}
	}
	return out.Flush()
}

// A traceChecker checks the accesses of a trace one after the other.
type traceChecker struct {
	regions map[string]Structure
	seqs    []int // Seq of each access so far
	req     int   // Req of the last access
	touched int   // the sum of n so far
	afters  int   // the numbers in all lists after so far
}

func (c *traceChecker) check(a *Access) error {
	if err := c.checkValues(a); err != nil {
		return err
	}
	if len(c.seqs) == maxAccesses {
		return fmt.Errorf("is one access more than %d", maxAccesses)
	}
	if n := len(c.seqs); n > 0 && a.Seq <= c.seqs[n-1] {
		return keyErrorf("seq", "%d does not increase: the access before has %d", a.Seq, c.seqs[n-1])
	}
	if a.Req < c.req {
		return keyErrorf("req", "%d is less than that of the access before, %d", a.Req, c.req)
	}
	for _, s := range a.After {
		if s >= a.Seq {
			return keyErrorf("after", "%d is not earlier than this access, %d", s, a.Seq)
		}
		if _, ok := slices.BinarySearch(c.seqs, s); !ok {
			return keyErrorf("after", "%d is the seq of no access", s)
		}
	}
	if a.Op != Work {
		if c.touched+a.N > maxTouched {
			return keyErrorf("n", "%d: with this access, the sum of n over the trace is %d, more than %d", a.N, c.touched+a.N, maxTouched)
		}
		c.touched += a.N
	}
	c.afters += len(a.After)
	if c.afters > maxAfters {
		return keyErrorf("after", "all lists of the trace together have more than %d numbers", maxAfters)
	}
	c.seqs, c.req = append(c.seqs, a.Seq), a.Req
	return nil
}

// checkValues checks what needs no other access.
func (c *traceChecker) checkValues(a *Access) error {
	switch {
	case !a.Known():
		return fmt.Errorf("agent %d, operation %d, kind %d, reason %d: one of them does not exist", a.Who, a.Op, a.Kind, a.Why)
	case a.Seq < 0 || a.Seq > maxNumber:
		return keyErrorf("seq", "%d is not 0..%d", a.Seq, maxNumber)
	case a.Req < 0 || a.Req > maxNumber:
		return keyErrorf("req", "%d is not 0..%d", a.Req, maxNumber)
	case len(a.After) > maxAfter:
		return keyErrorf("after", "has %d numbers, more than %d", len(a.After), maxAfter)
	case a.Op == Work:
		return nil
	case a.N < 1 || a.N > maxTouched:
		return keyErrorf("n", "%d is not 1..%d", a.N, maxTouched)
	case a.Bytes < 0 || a.Bytes > a.N*LineSize:
		return keyErrorf("bytes", "%d is not 0..%d, the bytes of %d lines", a.Bytes, a.N*LineSize, a.N)
	case a.Line.Index < 0 || a.Line.Index > maxIndex-a.N+1:
		return keyErrorf("line", "index %d: the last of %d lines is not 0..%d", a.Line.Index, a.N, maxIndex)
	}
	if _, ok := c.regions[a.Line.Region]; !ok {
		return keyErrorf("line", "%v: nobody placed this line: the header has no region %q", a.Line, a.Line.Region)
	}
	return nil
}
