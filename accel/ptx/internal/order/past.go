package order

// A past is what the GPU has seen of a word of 8 bytes.
type past struct {
	version
	old     []version
	readers []reader
	floor   uint64 // nobody sees a version that has ended before
}

// A version is a value that a word had. It has begun and ended in operations, or later, if the device has
// changed it: it was last seen when it ended.
type version struct {
	value, begin, end uint64
	writer            int
	view              *clock // those who acquire it know this much
}

// A reader is a block that has read a version, which has begun in an operation, and when.
type reader struct {
	block       int
	begin, when uint64
}

// How many versions of a word, readers of a word, and words are remembered.
const (
	maxVersions = 8
	maxReaders  = 8
	maxWords    = 1 << 16
)

// look notes the value that a word has now. If it is new, it is the device's.
func (m *Memory) look(number uint64) *past {
	v := m.load(8*number, 8)
	p := m.words[number]
	switch {
	case p == nil:
		if len(m.words) == maxWords {
			m.drop()
		}
		view := m.sinceFlush.join(m.device).with(device, m.stamp)
		p = &past{version: version{value: v, begin: m.stamp, writer: device, view: view}}
		m.words[number] = p
		m.known = append(m.known, number)
	case p.value != v:
		p.next(version{v, m.stamp, m.stamp, device, m.device.with(device, m.stamp)})
	}
	p.end = m.stamp
	return p
}

// drop drops all words.
func (m *Memory) drop() {
	clear(m.words)
	m.known = m.known[:0]
	m.dropped = m.stamp
}

// next begins a version.
func (p *past) next(v version) {
	if len(p.old) == maxVersions {
		p.old = p.old[:copy(p.old, p.old[1:])]
	}
	p.old = append(p.old, p.version)
	p.version = v
}

// newer reports whether a version that has begun after an operation is known by a clock, or a block that has
// read one: then nothing older may be seen. Of versions that are not remembered it is assumed.
func (p *past) newer(since uint64, sees *clock) bool {
	if p.floor > since {
		return true
	}
	for _, r := range p.readers {
		if r.begin > since && sees.knows(r.block) >= r.when {
			return true
		}
	}
	v := p.version
	for k := len(p.old) - 1; v.begin > since; k-- {
		if k < 0 {
			return true
		}
		if sees.knows(v.writer) >= p.old[k].end { // a device's store may have been before it was noted
			return true
		}
		v = p.old[k]
	}
	return false
}

// wrote notes that a block has stored a word, after a look.
func (m *Memory) wrote(number uint64, b *Shared, view *clock) {
	m.words[number].next(version{m.load(8*number, 8), m.stamp, m.stamp, b.writer, view})
	b.seen[number] = m.stamp
}

// strong returns the version of a word that a lane sees by a load that is not weak: the newest, or an older
// one that the lane does not know to be over. So a load may be done before loads that come before it.
func (l *Lane) strong(number uint64) version {
	m, b := l.block.memory, l.block
	p := m.look(number)
	found, floor := p.version, max(p.floor, b.seen[number])
	for _, r := range p.readers {
		if l.sees.knows(r.block) >= r.when {
			floor = max(floor, r.begin)
		}
	}
	by := p.writer
	for k := len(p.old) - 1; k >= 0; k-- {
		v := p.old[k]
		if v.end <= floor || v.end <= l.sees.knows(by) {
			break
		}
		if m.rng.IntN(4) == 0 {
			found = v
			break
		}
		by = v.writer
	}
	b.read(p, number, found.begin)
	return found
}

// read notes that a block has read a version of a word.
func (b *Shared) read(p *past, number, begin uint64) {
	m := b.memory
	b.seen[number] = max(b.seen[number], begin)
	for k := range p.readers {
		if r := &p.readers[k]; r.block == b.writer {
			if begin > r.begin {
				r.begin, r.when = begin, m.stamp
			}
			return
		}
	}
	if len(p.readers) == maxReaders {
		p.floor = max(p.floor, p.readers[0].begin)
		p.readers = p.readers[:copy(p.readers, p.readers[1:])]
	}
	p.readers = append(p.readers, reader{b.writer, begin, m.stamp})
}
