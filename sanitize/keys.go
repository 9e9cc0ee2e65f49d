package sanitize

import (
	"sort"

	"github.com/nicless/nicless/trace"
)

// A key is a memory key.
type key struct {
	number  uint32
	info    trace.KeyInfo
	setup   trace.KeySetup
	list    []trace.KeyPiece
	ends    []uint64 // of each piece, as offsets in the list
	isList  bool
	unknown bool // a WQE has filled it: no event says with which pieces
}

// A gone is a key that was deregistered.
type gone struct {
	client uint32
	time   uint64
}

// variantBits is how many bits of a key are not its index.
const variantBits = 8

const (
	mostKeys   = 1 << 20 // a device that serves a rack has some ten thousand
	mostGone   = 1 << 16 // keys that were deregistered; the oldest are dropped
	mostPieces = 1 << 10 // of a list, and of the memory of a WQE
	mostDepth  = 4       // lists of lists
)

// keys are the keys of a device, and those that it had.
type keys struct {
	known map[uint32]*key // by the index in its number
	gone  map[uint32]gone
	order []uint32 // of gone, the oldest first; a key that came again is in it once more
}

func newKeys() keys { return keys{known: map[uint32]*key{}, gone: map[uint32]gone{}} }

// event notes an event of kind KindKey.
func (k *keys) event(e *trace.Event) {
	info, err := trace.ParseKeyInfo(e.Data)
	if err != nil {
		return
	}
	if e.Index == trace.KeyGone {
		delete(k.known, e.Queue>>variantBits)
		k.drop(e.Queue, gone{info.Client, e.Time})
		return
	}
	delete(k.gone, e.Queue)
	if len(k.known) >= mostKeys && k.known[e.Queue>>variantBits] == nil {
		return
	}
	x := &key{number: e.Queue, info: info}
	setup, ok := trace.ParseKeySetup(e.Data)
	if ok {
		x.setup = setup
		list, filled := trace.ParseKeyList(e.Data)
		x.isList, x.list = setup.Entries != 0, list.Pieces
		var sane bool
		x.ends, sane = pieceEnds(x.list)
		x.unknown = x.isList && !(filled && sane)
	} else {
		x.setup.From = info.Addr
	}
	k.known[e.Queue>>variantBits] = x
}

// pieceEnds returns where each piece of a list ends. ok is false if an offset has more than 64 bits.
func pieceEnds(list []trace.KeyPiece) (at []uint64, ok bool) {
	end := uint64(0)
	for _, p := range list {
		if end+p.N < end {
			return nil, false
		}
		end += p.N
		at = append(at, end)
	}
	return at, true
}

func (k *keys) drop(number uint32, g gone) {
	if _, again := k.gone[number]; !again {
		k.order = append(k.order, number)
	}
	k.gone[number] = g
	for len(k.order) > mostGone {
		delete(k.gone, k.order[0])
		k.order = k.order[1:]
	}
}

// A piece is memory of a client.
type piece struct {
	client uint32
	from   uint64 // address in the client
	n      uint64
}

// resolve appends the memory of n bytes at an address of a key. ok is false if not all of it is known: then
// the device refuses the WQE, or the trace does not tell where the memory is.
func (k *keys) resolve(to []piece, number uint32, addr, n uint64) (_ []piece, ok bool) {
	return k.part(to, number, addr, n, mostDepth)
}

func (k *keys) part(to []piece, number uint32, addr, n uint64, depth int) (_ []piece, ok bool) {
	x := k.known[number>>variantBits]
	if x == nil || x.number != number || x.unknown {
		return to, false
	}
	if depth == 0 || len(to) >= mostPieces {
		return to, false
	}
	off := addr - x.info.Addr
	if off > x.info.Length || n > x.info.Length-off {
		return to, false
	}
	if !x.isList {
		from := x.setup.From + off
		return append(to, piece{x.info.Client, from, n}), from+n >= from
	}
	first := sort.Search(len(x.list), func(i int) bool { return x.ends[i] > off })
	for i := first; i < len(x.list) && n > 0; i++ {
		p := x.list[i]
		if p.N == 0 {
			continue
		}
		m := min(x.ends[i]-off, n)
		if to, ok = k.part(to, p.Key, p.Addr+p.N-(x.ends[i]-off), m, depth-1); !ok {
			return to, false
		}
		off, n = x.ends[i], n-m
	}
	return to, n == 0
}

// filled notes that a WQE has filled a list, perhaps with another variant of its number.
func (k *keys) filled(number uint32) {
	if x := k.known[number>>variantBits]; x != nil {
		x.unknown = true
	}
}
