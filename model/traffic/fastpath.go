package traffic

import (
	"encoding/binary"

	"github.com/nicless/nicless/model"
	"github.com/nicless/nicless/wqe"
)

// A series has at most mostSeries WQEs, and moves at most seriesBytes bytes.
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

// series returns how many of these WQEs the device may execute as a series if they turn out to be
// alike. 0 or 1 means that there is no series. series adds the loads of consumer indices that the
// device needs to know how many completions have room.
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

// ordinary reports whether the control segment of w has nothing but the opcode, the index and the
// number of units of the WQE, the number of the queue pair, and whether the WQE is signaled.
func (w *work) ordinary() bool {
	const signaled = uint64(wqe.CEAlways) << 32
	secondHalf := binary.BigEndian.Uint64(w.WQE[wqe.CtrlSize/2:])
	return w.ctrl.OpMod == 0 && secondHalf&^signaled == 0
}

// executeSeries adds the execution of a series: the first WQE, and the WQEs after it up to the first
// that is not like it. The series has at most the parameter most WQEs. executeSeries returns how many
// WQEs it has.
func (x *Expander) executeSeries(works []*work, most int) int {
	first := works[0]
	if first.prefetched {
		// A series reads the entries of all its receives, also if one was fetched before.
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

// like reports whether v differs from w only in its addresses, its index and whether it is signaled.
func (v *work) like(w *work) bool {
	sameForm := v.ctrl.Opcode == w.ctrl.Opcode && v.ctrl.DS == w.ctrl.DS && v.ordinary()
	if !sameForm || v.pieces != w.pieces || v.total != w.total {
		return false
	}
	near := func(w *work) *key {
		if w.info.Reads {
			return w.dst[0].key
		}
		return w.src[0].key
	}
	sameRemote := v.remote == nil || v.remote.key == w.remote.key
	return near(v) == near(w) && sameRemote
}
