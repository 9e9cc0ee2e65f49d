package traffic

import (
	"encoding/binary"

	"github.com/nicless/nicless/model"
	"github.com/nicless/nicless/wqe"
)

// mostSeries is how many WQEs a series can have, and seriesBytes how many bytes it can move.
const (
	mostSeries  = 16
	seriesBytes = 16 << 10
)

// fastPath adds what the fast path does for the first WQE, or for a series of at most the parameter
// most WQEs. It returns how many WQEs it has executed.
func (x *Expander) fastPath(works []*work, most int) int {
	w := works[0]
	x.wqe(model.Dev, model.Load, model.Once, w.block, 1, wqe.BlockSize)
	x.previewMessage(w)
	x.readKeys(w, true)
	if k := x.series(works, most); k > 1 {
		return x.executeSeries(works, k)
	}
	x.transfer(w)
	x.finish(w)
	return 1
}

// series returns how many of these WQEs may be executed as a series, if they turn out to be alike.
func (x *Expander) series(works []*work, most int) int {
	w := works[0]
	op := w.ctrl.Opcode
	possible := op == wqe.OpRDMAWrite || op == wqe.OpRDMARead || op == wqe.OpSend
	most = min(most, len(works))
	if !possible || most < 2 || !w.ordinary() {
		return 0
	}
	most = x.room(&x.send, min(most, mostSeries, seriesBytes/int(w.total)))
	if op == wqe.OpSend && most > 1 {
		most = x.room(&x.recv, most)
	}
	return most
}

// ordinary reports whether the control segment of w has nothing but opcode, index, number, size and
// whether it is signaled.
func (w *work) ordinary() bool {
	return w.ctrl.OpMod == 0 && binary.BigEndian.Uint64(w.WQE[8:])&^(uint64(wqe.CEAlways)<<32) == 0
}

// executeSeries adds the execution of the first WQE and of those after it that are like it, at most
// the parameter most WQEs. It returns how many WQEs it has executed.
func (x *Expander) executeSeries(works []*work, most int) int {
	first := works[0]
	if first.prefetched {
		// a series reads all its receives
		x.entry(model.Dev, model.Load, model.Once, first.entry, 0, wqe.DataSize)
	}
	x.move(first)
	n := 1
	for n < most && x.readNext(works[n], first) {
		x.move(works[n])
		n++
	}
	for _, w := range works[:n] {
		x.finishReceive(w)
	}
	for _, w := range works[:n] {
		x.finishSend(w)
	}
	return n
}

// readNext adds the device's reads of w, the next WQE, and of the receive that w takes. It reports
// whether w belongs to the series that first has begun.
func (x *Expander) readNext(w, first *work) bool {
	x.wqe(model.Dev, model.Load, model.Once, w.block, 1, wqe.BlockSize)
	if !w.like(first) {
		return false
	}
	if w.receive == nil {
		return true
	}
	x.entry(model.Dev, model.Load, model.Once, w.entry, 0, wqe.DataSize)
	return w.firstPiece() == first.firstPiece()
}

// like reports whether v has the shape of w.
func (v *work) like(w *work) bool {
	if v.ctrl.Opcode != w.ctrl.Opcode || v.ctrl.DS != w.ctrl.DS || !v.ordinary() || v.pieces != w.pieces ||
		v.total != w.total {
		return false
	}
	near := func(w *work) *key {
		if w.info.Reads {
			return w.dst[0].key
		}
		return w.src[0].key
	}
	return near(v) == near(w) && (v.remote == nil || v.remote.key == w.remote.key)
}
