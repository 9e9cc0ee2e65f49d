package lines

import (
	"fmt"

	"github.com/nicless/nicless/model"
)

// Names of regions that are there once. Those of queues have the number of the queue in their names.
const (
	registers = "uar"
	keyTable  = "keys"
	read      = "tx" // memory that the device reads
	written   = "rx" // memory that it writes, and that of atomics
)

const (
	mostRegions = 4000 // the form has 4096; one WQE needs fewer than the difference
	pageLines   = 64
	pageSize    = pageLines * model.LineSize
)

// region returns the name of a region, and enters it.
func (m *Maker) region(is model.Structure, name string) string {
	m.trace.Regions[name] = is
	return name
}

func (m *Maker) sendRing(qp uint32) string { return m.region(model.SQ, fmt.Sprintf("sq.%x", qp)) }
func (m *Maker) recvRing(qp uint32) string { return m.region(model.RQ, fmt.Sprintf("rq.%x", qp)) }
func (m *Maker) record(qp uint32) string   { return m.region(model.Records, fmt.Sprintf("db.%x", qp)) }
func (m *Maker) ring(cq uint32) string     { return m.region(model.CQ, fmt.Sprintf("cq.%x", cq)) }
func (m *Maker) consumed(cq uint32) string { return m.region(model.Records, fmt.Sprintf("ci.%x", cq)) }

// add adds an access to n lines, and returns its number.
func (m *Maker) add(a model.Access) int {
	m.seq++
	a.Seq, a.Req = m.seq, m.req
	m.touched += a.N
	m.trace.Accesses = append(m.trace.Accesses, a)
	return m.seq
}

// key adds the device's search for a key.
func (m *Maker) key(number uint64) {
	at, ok := m.keys[number]
	if !ok {
		at = len(m.keys)
		m.keys[number] = at
	}
	m.add(model.Access{Who: model.Dev, Op: model.Load, Kind: model.Key, Why: model.Follow,
		Line: model.Line{Region: m.region(model.Keys, keyTable), Index: at}, N: 1, Bytes: model.LineSize})
}

// memory adds accesses to n bytes of a region of memory. Pages that follow each other in memory, but not in
// the region, are accesses of their own.
func (m *Maker) memory(op model.Op, why model.Why, name string, address, n uint64) {
	is, pages := model.TxPayload, m.readPages
	if name == written {
		is, pages = model.RxPayload, m.writtenPages
	}
	first, lines := -1, 0
	flush := func() {
		if lines > 0 {
			m.add(model.Access{Who: model.Dev, Op: op, Kind: model.Payload, Why: why,
				Line: model.Line{Region: m.region(is, name), Index: first}, N: lines})
		}
	}
	for n > 0 && m.touched+lines < MostLines {
		page, ok := pages[address/pageSize]
		if !ok {
			page = len(pages)
			pages[address/pageSize] = page
		}
		k := min(n, pageSize-address%pageSize)
		from := page*pageLines + int(address%pageSize/model.LineSize)
		to := page*pageLines + int((address%pageSize+k-1)/model.LineSize)
		if from != first+lines || lines == 0 {
			flush()
			first, lines = from, 0
		}
		lines += to - from + 1
		address, n = address+k, n-k
	}
	flush()
}
