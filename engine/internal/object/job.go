//go:build linux && (amd64 || arm64)

package object

// The budget of a visit is counted in bytes, and everything that takes the time of copying so
// many bytes costs so many. A client chooses how its bytes are cut into pieces and where the
// pieces are, so the bytes alone would bound nothing.

// PieceCost is the least number of bytes that a piece costs of a budget. Checking one entry
// of a list costs the same. Each takes about the time of copying this many bytes.
const PieceCost = 64

// Scattered reports whether the list is, or may be, more than one contiguous range of
// memory.
func (l *List) Scattered() bool { return l.N > 1 || l.Piece[0].Mem == nil }

// Touched returns the key of the bytes that Next has returned. If that key is a list, Touched also
// returns within, the key of the list's entry that contains these bytes.
func (l *List) Touched() (k, within *Mkey) {
	p := &l.Piece[l.Current]
	if p.Mem == nil {
		within = p.Key.List[l.Spot.run].Found
	}
	return p.Key, within
}

// Over reports whether all bytes are moved. A job with a fault is never over, so that the next
// visit handles the fault.
func (j *Job) Over() bool { return j.Moved >= j.Total && j.Offloaded == 0 && j.Fault == 0 }

// Rewind makes the next byte that j moves its first one.
func (j *Job) Rewind() {
	j.Moved = 0
	j.Src.Current, j.Src.Off = 0, 0
	j.Dst.Current, j.Dst.Off = 0, 0
}

// Reads reports whether the WQE brings bytes to its poster, as READs and atomics do.
func (j *Job) Reads() bool { return j.Head.Opcode().Info().Reads }

// Reset makes j the job of a WQE with this control segment, before it is checked.
func (j *Job) Reset(h Head) {
	j.Head, j.Blocks = h, h.Blocks()
	j.findings = findings{}
	j.Src.Reset()
	j.Dst.Reset()
}

func (l *List) Reset() { l.N, l.Current, l.Off, l.Unmapped = 0, 0, 0, false }

// Add appends a piece. It stores field by field, for the reason given at Head.
func (l *List) Add(mem []byte, key *Mkey, off, n uint64) {
	p := &l.Piece[l.N]
	p.Mem, p.Key, p.off, p.N = mem, key, off, n
	l.N++
}

// Next returns the next contiguous bytes of the list: at least one, at most n.
func (l *List) Next(n uint64) []byte {
	for l.Off == l.Piece[l.Current].N {
		l.Current++
		l.Off = 0
	}
	p := &l.Piece[l.Current]
	if p.Mem != nil {
		return p.Mem[l.Off:][:min(n, p.N-l.Off)]
	}
	if l.Off == 0 {
		l.Spot = p.Key.Seek(p.off)
	}
	return p.Key.Bytes(l.Spot, min(n, p.N-l.Off))
}

// Advance moves the position past n of the bytes that Next returned.
func (l *List) Advance(n int) {
	l.Off += uint64(n)
	if p := &l.Piece[l.Current]; p.Mem == nil {
		p.Key.Advance(&l.Spot, uint64(n))
	}
}

// CopyInline copies inline data out of the snapshot, which the next WQE will overwrite.
func (j *Job) CopyInline() {
	free := j.inline[:]
	for i := range j.Src.N {
		if p := &j.Src.Piece[i]; p.Key == nil {
			n := copy(free, p.Mem)
			p.Mem, free = free[:n:n], free[n:]
		}
	}
}
