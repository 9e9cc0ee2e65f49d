package verbs

import (
	"encoding/binary"
	"io"
	"log/slog"
	"testing"

	"github.com/nicless/nicless/field/devx"
	"github.com/nicless/nicless/verbs/internal/abi"
	"github.com/stretchr/testify/require"
)

// A context with firmware commands answers whatever mailboxes a program sends. Every failure of a command has
// a status, nothing panics, and everything that was made is released at the end. The input is a list of
// commands: a byte that chooses a right command, a byte with the number of words to change, and for each its
// place (in words) and its value. A right command alone would hardly be found by chance.
func FuzzDevx(f *testing.F) {
	f.Add([]byte{0, 0, 1, 0, 2, 0, 3, 0, 4, 0, 5, 0, 6, 0, 7, 0, 8, 0, 9, 0, 10, 0, 11, 0, 12, 0})
	f.Add([]byte{0, 1, 7, 31, 0, 0, 0, 1, 2, 8, 0, 0, 0x38, 0, 10, 0x40, 0, 0, 0})
	f.Add([]byte{0, 0, 2, 1, 49, 1, 0, 0, 0, 3, 1, 28, 0, 5, 0, 0xc, 12, 1, 2, 0, 0, 0, 1})
	s := newServingWith(f, Config{})
	s.log = slog.New(slog.NewTextHandler(io.Discard, &slog.HandlerOptions{Level: slog.LevelDebug}))
	f.Fuzz(func(t *testing.T, input []byte) {
		r := s.rig(t)
		m := r.maker()
		var handles []uint64
		var cqn, rmpn, qpn uint32
		for range mostCalls {
			if len(input) < 2 {
				break
			}
			kind, words := input[0]%13, int(input[1])
			input = input[2:]
			cmd := m.right(kind, cqn, rmpn, qpn)
			for ; words > 0 && len(input) >= 5; words-- {
				if at := 4 * int(input[0]); at+4 <= len(cmd) && at > 0 {
					copy(cmd[at:], input[1:5])
				}
				input = input[5:]
			}
			target := uint64(binary.BigEndian.Uint32(cmd[8:])) // of commands that take one: handles are small
			if len(handles) > 0 {
				target = handles[int(target)%len(handles)]
			}
			var a answer
			switch {
			case kind < 5:
				a = m.create(cmd)
				if a.errno == 0 {
					handles = append(handles, a.value[abi.MLX5AttrDEVXObjCreateHandle])
					n := binary.BigEndian.Uint32(a.bytes[abi.MLX5AttrDEVXObjCreateCmdOut][8:])
					require.NotZero(t, n)
					for to, made := range map[*uint32]bool{&cqn: kind == 0, &rmpn: kind == 1, &qpn: kind > 1} {
						if made {
							*to = n
						}
					}
				} else if out := a.bytes[abi.MLX5AttrDEVXObjCreateCmdOut]; len(out) > 0 {
					require.NotZero(t, out[0], "the status of a command that failed")
				}
			case kind < 11:
				a = m.modify(target, cmd)
			case kind == 11:
				_ = m.destroy(target)
			default:
				m.umem(uint64(cmd[11]) + 1)
			}
		}
		for _, x := range r.p.contexts {
			x.end()
		}
		r.p.end()
		require.Empty(t, s.contexts)
		require.Empty(t, r.p.memory.extents)
		require.Empty(t, r.p.pending)
	})
}

// right returns a command that the device executes, if it is given objects that exist.
func (m *maker) right(kind byte, cqn, rmpn, qpn uint32) []byte {
	switch kind {
	case 0:
		return m.cqCommand()
	case 1:
		return m.rmpCommand()
	case 2:
		return m.qpCommand(cqn)
	case 3:
		return m.qpCommand(cqn, devx.QPReceiveCQ, cqn, devx.QPRQType, devx.RQShared, devx.QPSRQ, rmpn, devx.QPType, 5)
	case 4:
		return mailbox(devx.OpCreateDCT, devx.DCTPD, m.domain(), devx.DCTSRQ, rmpn, devx.DCTCQ, cqn, devx.DCTPort, 1, devx.DCTMTU, 5)
	case 5:
		return mailbox(devx.OpRST2INIT, devx.QPN, qpn, devx.QPPort, 1, devx.QPWrites, 1)
	case 6:
		return mailbox(devx.OpINIT2RTR, devx.QPN, qpn, devx.QPMTU, 3, devx.QPRemote, qpn, devx.QPPort, 1)
	case 7:
		return mailbox(devx.OpRTR2RTS, devx.QPN, qpn, devx.QPTimeout, 14)
	case 8:
		return mailbox(devx.OpRTS2RTS, devx.QPN, qpn)
	case 9:
		return mailbox(devx.Op2ERR, devx.QPN, qpn)
	}
	return mailbox(devx.Op2RST, devx.QPN, qpn)
}
