package pool

// A table that has changed concerns one node, but each node of a rack sees that it has. So a part says in a
// few words which nodes its table names: one bit for each node, set before the pair names the node, and
// cleared after the pair has ended. A node whose bit is 0 does not search the table. These words decide
// nothing else: a bit that is wrongly set costs a search, and the search judges the pair.

// namesAt is where the bits are, in a part, behind the longest board. Bit n of word m is for node 64m+n.
const (
	namesAt   = pairsAt - namesSize
	namesSize = MaxNodes / 8
)

// A nameSet has the bits that a node has written last.
type nameSet [MaxNodes / 64]uint64

// nameOf returns which word and which bit of it are for a node.
func nameOf(node int) (word, bit uint64) { return uint64(node) / 64, 1 << (uint64(node) % 64) }

// names reports whether a node's part says that its table names another one.
//
// Observe: bit of a name, published by Pool.putNames.
func (v *view) names(part uint64, node int) bool {
	word, bit := nameOf(node)
	return v.load(part+namesAt+8*word)&bit != 0
}

// putNames writes one word.
//
// Publish: bit of a name. Observed by view.names of other nodes.
func (p *Pool) putNames(word uint64) { p.view.store(p.part+namesAt+8*word, p.named[word]) }

// putName says whether this node's table names another one.
func (p *Pool) putName(node int, named bool) {
	word, bit := nameOf(node)
	was := p.named[word]
	p.named[word] = was &^ bit
	if named {
		p.named[word] |= bit
	}
	if p.named[word] != was {
		p.putNames(word)
	}
}

// restoreName writes the word for a node again if others have overwritten it. The node may have looked at it
// already, so the table counts as changed.
func (p *Pool) restoreName(node int) {
	word, _ := nameOf(node)
	if p.view.load(p.part+namesAt+8*word) != p.named[word] {
		p.putNames(word)
		p.reportChange()
	}
}
