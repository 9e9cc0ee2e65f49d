//go:build linux && (amd64 || arm64)

package roce

// An origin says how the remote address of a path has become known.
type origin uint8

const (
	stranger origin = iota // a good packet has come on the path, and this engine has not requested the path
	wanted                 // this engine has requested the path
)

// isStranger reports whether the remote address of a path is a stranger's: this engine has not requested a
// path to it, and it has not proven a key. The caller holds the table's lock.
func (p *path) isStranger() bool { return p.origin == stranger && !p.peer.proven() }

// A list has paths that are not held, in order of use. There are two lists: the paths of
// strangers, at most Config.Strangers, and the paths that were requested. When a list is
// full, the least recently used path in it ends. So strangers cannot fill the table, and cannot
// end a path that this engine uses, however many addresses they forge.
type list struct {
	first, last *path
	n           int
}

// add puts a path at the end: it was used now.
func (l *list) add(p *path) {
	p.previous, p.next = l.last, nil
	if l.last != nil {
		l.last.next = p
	} else {
		l.first = p
	}
	l.last = p
	l.n++
}

// remove takes a path out.
func (l *list) remove(p *path) {
	if p.previous != nil {
		p.previous.next = p.next
	} else {
		l.first = p.next
	}
	if p.next != nil {
		p.next.previous = p.previous
	} else {
		l.last = p.previous
	}
	p.previous, p.next = nil, nil
	l.n--
}
