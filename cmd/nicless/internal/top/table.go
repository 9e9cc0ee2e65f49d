//go:build linux && (amd64 || arm64)

package top

import "strings"

// A column of a table whose rows are of type R.
type column[R any] struct {
	title string
	width int  // columns of the terminal; of the last one, the least: it takes the rest
	rank  int  // when there is little room, the columns of the highest rank are left out
	text  bool // it begins at the left
	rise  bool // its first order is ascending

	show  func(*R) string
	order func(a, b *R) int // negative if a is less
}

// A table is rows of one kind: which of them are shown, in what order, and which one is under the cursor.
// Its methods cost time in proportion to the rows only when rows, filter or order change.
type table[R any] struct {
	columns []column[R]
	number  func(*R) uint32 // by which a row is known from snapshot to snapshot
	words   func(*R) string // in which the filter looks

	rows   *[]R  // in the order of the engine
	shown  []int // indices of rows that pass the filter, in order
	by     int   // column that gives the order
	invert bool
	filter string

	cursor uint32 // number of the row under the cursor
	at     int    // place of it in shown
	moved  bool   // the user has chosen the row; otherwise the cursor is on whichever is the first
	first  int    // place of the first row on the screen
}

// A grid is a table, of which the screen does not know what rows it has.
type grid interface {
	renew()
	lines(width, height int, st *styles) []string
	move(by, height int)
	selected() (number uint32, ok bool)
	visible(height int) []uint32
	titles() []string
	sorted() (by int, invert bool)
	sortBy(by int, invert bool)
	setFilter(text string)
	filtered() string
	counts() (shown, all int)
}

func (t *table[R]) titles() (list []string) {
	for _, c := range t.columns {
		list = append(list, c.title)
	}
	return list
}

func (t *table[R]) sorted() (by int, invert bool) { return t.by, t.invert }
func (t *table[R]) filtered() string              { return t.filter }
func (t *table[R]) counts() (shown, all int)      { return len(t.shown), len(*t.rows) }

func (t *table[R]) setFilter(text string) {
	t.filter = text
	t.renew()
}

// passes reports whether a row has all words of the filter.
func (t *table[R]) passes(r *R, words []string) bool {
	if len(words) == 0 {
		return true
	}
	text := strings.ToLower(t.words(r))
	for _, w := range words {
		if !strings.Contains(text, w) {
			return false
		}
	}
	return true
}

// renew chooses and orders the rows anew. The cursor stays on its row, or at its place if the row has gone.
func (t *table[R]) renew() {
	words := strings.Fields(strings.ToLower(t.filter))
	for i, w := range words { // other commands write numbers of objects with six digits
		if n, ok := strings.CutPrefix(w, "0x"); ok {
			words[i] = "0x" + strings.TrimLeft(n, "0")
		}
	}
	t.shown = t.shown[:0]
	for i := range *t.rows {
		if t.passes(&(*t.rows)[i], words) {
			t.shown = append(t.shown, i)
		}
	}
	t.arrange()
	if !t.moved {
		t.at = 0
		t.move(0, 0)
		t.moved = false
		return
	}
	for at, i := range t.shown {
		if t.number(&(*t.rows)[i]) == t.cursor {
			t.at = at
			return
		}
	}
	t.move(0, 0)
}

func (t *table[R]) row(at int) *R { return &(*t.rows)[t.shown[at]] }

// move moves the cursor.
func (t *table[R]) move(by, height int) {
	t.moved = t.at+by > 0
	t.at = max(min(t.at+by, len(t.shown)-1), 0)
	if t.at < len(t.shown) {
		t.cursor = t.number(t.row(t.at))
	}
	t.scroll(height)
}

// scroll brings the cursor onto a screen of some rows.
func (t *table[R]) scroll(height int) {
	if height <= 0 {
		return
	}
	t.first = max(min(t.first, t.at, len(t.shown)-height), t.at-height+1, 0)
}

func (t *table[R]) selected() (uint32, bool) {
	if t.at >= len(t.shown) {
		return 0, false
	}
	return t.number(t.row(t.at)), true
}

// visible returns the numbers of the rows on the screen.
func (t *table[R]) visible(height int) (list []uint32) {
	for at := t.first; at < min(t.first+height, len(t.shown)); at++ {
		list = append(list, t.number(t.row(at)))
	}
	return list
}
