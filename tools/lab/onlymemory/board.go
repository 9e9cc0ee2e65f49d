//go:build linux && (amd64 || arm64)

package onlymemory

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/nicless/nicless"
	"github.com/nicless/nicless/accel"
)

// The first page of the memory, the board, says where everything else is. Its words have 8
// bytes, and only the engine writes them. It writes the magic last. The text is JSON.
const (
	boardSize = 64 << 10 // the engine's memory begins behind it

	magicAt     = 0  // magic, or something else while there is no board
	idAt        = 8  // random, another one for each engine
	lengthAt    = 16 // of the text, in bytes
	sumAt       = 24 // CRC-32C of id, length and text
	heartbeatAt = 32 // changes while the engine runs: a page that an engine has left behind is stale
	textAt      = 64
)

const magic = 0x3130_7473_6f70_6c70 // "plpost01" in memory

// A description is the text. Its offsets count from the end of the board.
type description struct {
	Nodes []node `json:"nodes"` // node n has index n-1
}

// A node is what a poster has: a queue pair, which is connected with its peer's, and memory,
// which its peer may write to and read.
type node struct {
	Peer   int                  `json:"peer"`
	QP     nicless.RawLayout    `json:"qp"`
	Memory nicless.MemoryLayout `json:"memory"`
}

// A board is the first page.
type board struct{ *accel.Buffer }

// wordsOf makes the words of a part of the memory accessible.
func wordsOf(mem []byte, p nicless.Place) (*accel.Buffer, error) {
	m, err := (&nicless.MemoryLayout{Place: p}).In(mem)
	if err != nil {
		return nil, err
	}
	return accel.NewBuffer(m), nil
}

func boardOf(mem []byte) (board, error) {
	b, err := wordsOf(mem, nicless.Place{Size: boardSize})
	return board{b}, err
}

// put writes the text. No reader sees a part of it, because there is no magic meanwhile.
func (b board) put(id uint64, text []byte) error {
	if len(text) > boardSize-textAt {
		return fmt.Errorf("the description has %d bytes; %d are possible, so take fewer -pairs", len(text), boardSize-textAt)
	}
	b.Store(magicAt, 0)
	b.Store(idAt, id)
	b.Store(lengthAt, uint64(len(text)))
	b.Store(sumAt, sum(id, text))
	padded := append(text[:len(text):len(text)], make([]byte, 7)...)
	for i := 0; i < len(text); i += 8 {
		b.Store(textAt+i, binary.LittleEndian.Uint64(padded[i:]))
	}
	b.Store(magicAt, magic)
	return nil
}

var (
	errBlank = errors.New("there is no description in the memory yet")
	errTorn  = errors.New("the description in the memory is being written, or is damaged")
)

// get reads the text, and checks it.
func (b board) get() (id uint64, d description, err error) {
	if b.Load(magicAt) != magic {
		return 0, d, errBlank
	}
	id = b.Load(idAt)
	n := b.Load(lengthAt)
	if n > boardSize-textAt {
		return 0, d, fmt.Errorf("%w: %d bytes", errTorn, n)
	}
	var text []byte
	for at := range (int(n) + 7) / 8 {
		text = binary.LittleEndian.AppendUint64(text, b.Load(textAt+8*at))
	}
	text = text[:n]
	if b.Load(sumAt) != sum(id, text) || !b.is(id) {
		return 0, d, fmt.Errorf("%w: its sum is wrong", errTorn)
	}
	if err := json.Unmarshal(text, &d); err != nil {
		return 0, d, fmt.Errorf("the description: %w", err)
	}
	return id, d, nil
}

// is reports whether the board is still that of this engine.
func (b board) is(id uint64) bool { return b.Load(magicAt) == magic && b.Load(idAt) == id }

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// sum returns the checksum of the board's id and text.
func sum(id uint64, text []byte) uint64 {
	head := binary.LittleEndian.AppendUint64(nil, id)
	head = binary.LittleEndian.AppendUint64(head, uint64(len(text)))
	return uint64(crc32.Update(crc32.Checksum(head, castagnoli), castagnoli, text))
}
