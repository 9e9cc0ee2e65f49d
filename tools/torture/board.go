//go:build linux && (amd64 || arm64)

package torture

import (
	"os"
	"time"

	"github.com/nicless/nicless/internal/shm"
)

// A board is a page that the supervisor writes and clients read. It says which process is the
// engine, which process has each slot, and how long each client has been stopped. When a client continues, it
// reads that time at once and does not count it as a wait for the engine. The words do not depend on each
// other, and the supervisor is their only writer.
type board struct{ mem *shm.Region }

// boardFile is the descriptor of the board in a client's process.
const boardFile = 3

// setPID notes which process has a slot.
func (b board) setPID(slot, pid int) { b.word(1 + allSlots + slot).Publish(uint64(pid)) }

// clearPID notes that no process has the slot any more, unless another one than pid has it.
func (b board) clearPID(slot, pid int) {
	if w := b.word(1 + allSlots + slot); w.Observe() == uint64(pid) {
		w.Publish(0)
	}
}

// pids returns the process ids of the clients with these slots.
func (b board) pids(slots ...int) (list []int) {
	for _, slot := range slots {
		if pid := int(b.word(1 + allSlots + slot).Observe()); pid != 0 {
			list = append(list, pid)
		}
	}
	return list
}

// correct returns the pids of all correct clients.
func (b board) correct() []int {
	var slots [boardSlots]int
	for i := range slots {
		slots[i] = i
	}
	return b.pids(slots[:]...)
}

// boardSlots is how many correct clients there are: both ends of the pairs, then the visitor. The slots
// of hostile clients follow.
const boardSlots = 2*pairs + 1

const allSlots = boardSlots + hostileSlots

func newBoard() (board, error) {
	mem, err := shm.Create("board", 8*(1+2*allSlots))
	return board{mem}, err
}

// openBoard maps the board in a client's process.
func openBoard() (board, error) {
	mem, err := shm.Attach(os.NewFile(boardFile, "board"), false)
	if err == nil {
		err = mem.CloseFile()
	}
	return board{mem}, err
}

func (b board) word(i int) *shm.Word64 { return shm.Word64At(b.mem.Bytes(), uint64(8*i)) }

func (b board) setEngine(pid int) { b.word(0).Publish(uint64(pid)) }
func (b board) engine() int       { return int(b.word(0).Observe()) }
func (b board) engines() []int    { return []int{b.engine()} }

func (b board) setStopped(slot int, d time.Duration) { b.word(1 + slot).Publish(uint64(d)) }
func (b board) stopped(slot int) time.Duration       { return time.Duration(b.word(1 + slot).Observe()) }

// slot returns the slot of a client on the board.
func (s *Spec) slot() int {
	switch s.Role {
	case roleVisitor:
		return 2 * pairs
	case roleHostile:
		return boardSlots + s.Slot
	}
	return 2*s.Pair + s.End
}
