package control

// MaxFaultsPiece is the most bytes of a piece of the rules of faults: with what comes before it, a request
// fits into a datagram.
const MaxFaultsPiece = 488

// Faults is a piece of the rules of faults that a client sets, in the JSON form of package fault. The pieces
// come in order, each where the one before it has ended; one at 0 begins anew. With the last piece the rules
// take the place of those that the client has set before. Total 0 ends the client's rules.
type Faults struct {
	Total uint32 // bytes of the rules; the same in each piece
	At    uint32 // place of this piece in the rules
	Text  string
}

func (m *Faults) walk(w walker) {
	w.u32("total", &m.Total)
	w.u32("at", &m.At)
	w.text("text", &m.Text)
}

// FaultRule names one of the rules of faults that a client has set, by its place among them, from 0.
type FaultRule struct {
	Rule uint32
}

func (m *FaultRule) walk(w walker) { w.u32("rule", &m.Rule) }

// FaultCount says how often a rule has acted.
type FaultCount struct {
	Acted uint64
}

func (m *FaultCount) walk(w walker) { w.u64("acted", &m.Acted) }
