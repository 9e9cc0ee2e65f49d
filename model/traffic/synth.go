package traffic

import (
	"fmt"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/model"
	"github.com/nicless/nicless/wqe"
)

// A Form is how Synth posts its requests. The zero Form is: pointers to one piece of memory, every
// request signaled, one doorbell for each, a receive queue of its own.
type Form struct {
	Requests int // how many are posted; 0 means four times Ring
	Ring     int // entries of each queue, a power of two; 0 means 64

	Inline    bool // the payload is in the WQE
	SGEs      int  // pieces of memory that the payload is in; 0 means 1
	Signaled  int  // each request whose number is a multiple of this asks for a completion; 0 means 1
	Batch     int  // requests for one doorbell; 0 means 1
	BlueFlame bool // the queue pair has a BlueFlame register
	Rested    bool // Config.Rested

	SRQ         bool // receives come from a shared receive queue
	ReceiveSGEs int  // pieces of memory in each receive; 0 means 1
	Stride      int  // bytes of a receive; 0 means 64
	Prefetched  bool // Config.Prefetched

	EntrySize int  // bytes of a CQE; 0 means 64
	InlineCQE bool // short messages and results are put into CQEs

	Events    bool // Config.Events
	Untouched bool // no agent writes the payloads before they are sent, or reads them afterwards
	SlowPath  bool // Config.SlowPath
}

// A kind is an operation that Synth knows, with its name.
type kind struct {
	name string
	op   wqe.Opcode
}

var kinds = []kind{
	{"write", wqe.OpRDMAWrite}, {"write-imm", wqe.OpRDMAWriteImm}, {"read", wqe.OpRDMARead},
	{"send", wqe.OpSend}, {"send-imm", wqe.OpSendImm},
	{"fetch-add", wqe.OpAtomicFA}, {"cmp-swap", wqe.OpAtomicCS},
	{"masked-fetch-add", wqe.OpAtomicMaskedFA}, {"masked-cmp-swap", wqe.OpAtomicMaskedCS},
	{"nop", wqe.OpNop}, {"dump", wqe.OpDump}, {"copy", wqe.OpMMO},
}

// Ops returns the names of the operations that Synth knows. A copy is an MMO that copies local
// memory.
func Ops() (names []string) {
	for _, k := range kinds {
		names = append(names, k.name)
	}
	return names
}

// Synth returns the trace of steady traffic of one operation with payloads of the given number of
// bytes. The traffic is serial: the requests of a doorbell are posted when all signaled requests before
// them are complete and all unsignaled requests before them are executed. All doorbells use the same
// payload buffers.
//
// The first lap round the rings is a cold start: their lines were not used before.
func Synth(op string, bytes int, f Form) (model.Trace, error) {
	s, err := NewSource(op, bytes, f)
	if err != nil {
		return model.Trace{}, err
	}
	x, err := New(s.Config())
	for list := []Request(nil); err == nil; {
		if list, err = s.Next(); len(list) == 0 && err == nil {
			return x.Trace(), nil
		}
		if err == nil {
			err = x.Expand(list...)
		}
	}
	return model.Trace{}, err
}

// mostBytes is the most bytes that Synth moves in one request.
const mostBytes = 1 << 20

// complete fills in the fields that are 0, and refuses forms that the operation does not have.
func (f *Form) complete(op wqe.Opcode, bytes int) error {
	for _, d := range []struct {
		v   *int
		def int
	}{{&f.Ring, 64}, {&f.SGEs, 1}, {&f.Signaled, 1}, {&f.Batch, 1}, {&f.ReceiveSGEs, 1}, {&f.Stride, 64},
		{&f.EntrySize, cqe.Size}} {
		if *d.v == 0 {
			*d.v = d.def
		}
	}
	if f.Requests == 0 {
		f.Requests = 4 * f.Ring
	}
	info := op.Info()
	header := 0
	if f.SRQ {
		header = wqe.SRQNextSize
	}
	atomicOf4 := info.Atomic() && op != wqe.OpAtomicFA && op != wqe.OpAtomicCS // masked atomics: 4 or 8 bytes
	switch {
	case f.Requests < 1 || f.SGEs < 1 || f.Signaled < 1 || f.Batch < 1 || f.ReceiveSGEs < 1:
		return fmt.Errorf("traffic: %d requests, %d and %d pieces, every %dth signaled, %d for a doorbell; each is at least 1",
			f.Requests, f.SGEs, f.ReceiveSGEs, f.Signaled, f.Batch)
	case bytes < 0 || bytes > mostBytes:
		return fmt.Errorf("traffic: %d bytes; 0 to %d are possible", bytes, mostBytes)
	case info.Atomic() && bytes != 8 && !(bytes == 4 && atomicOf4):
		return fmt.Errorf("traffic: %v of %d bytes; 8 are possible, and 4 for masked atomics", op, bytes)
	case (info.Atomic() || op == wqe.OpMMO) && f.SGEs != 1:
		return fmt.Errorf("traffic: %v with %d pieces of memory; 1 is possible", op, f.SGEs)
	case f.Inline && !info.Inline:
		return fmt.Errorf("traffic: %v has no inline data", op)
	case op == wqe.OpMMO && bytes == 0:
		return fmt.Errorf("traffic: %v of 0 bytes", op)
	case (bytes > 0 && f.SGEs > bytes) || (info.Receive() && f.ReceiveSGEs > max(bytes, 1)):
		return fmt.Errorf("traffic: %d and %d pieces of memory for %d bytes", f.SGEs, f.ReceiveSGEs, bytes)
	case info.Receive() && header+f.ReceiveSGEs*wqe.DataSize > f.Stride:
		return fmt.Errorf("traffic: receives with %d pieces of memory in %d bytes", f.ReceiveSGEs, f.Stride)
	}
	return nil
}
