package record

import (
	"fmt"
	"strconv"

	"github.com/nicless/nicless/field/devx"
)

// devxHead is the bytes of struct nr_devx of verbs/record/raw.h before its command.
const devxHead = 8

// mostNamed is how many queues that are not recorded have a line each: more than a UCX worker makes, and less
// than fills a screen.
const mostNamed = 16

// unseen notes a queue of which nothing is recorded, because a firmware command has made it.
func (s *Summary) unseen(p *process, data []byte) {
	s.Firmware++
	if len(s.Named) < mostNamed {
		s.Named = append(s.Named, fmt.Sprintf("%s, of process %d (%s)",
			firmwareQueue(le.Uint32(data)&0xffffff, data[devxHead:]), p.reader.pid, quoted(p.reader.program)))
	}
}

// firmwareQueue says which queue a command has made.
func firmwareQueue(number uint32, cmd []byte) string {
	get := func(f *devx.Field) uint64 { return f.Get(cmd) }
	switch op := get(devx.Opcode); op {
	case devx.OpCreateCQ:
		return fmt.Sprintf("CQ 0x%x of %d entries", number, uint64(1)<<get(devx.CQLogSize))
	case devx.OpCreateQP:
		blocks := fmt.Sprintf("of %d blocks", uint64(1)<<get(devx.QPLogSQ))
		if devx.QPNoSQ.On(cmd) {
			blocks = "without a send queue"
		}
		return fmt.Sprintf("QP 0x%x %s, CQs 0x%x and 0x%x", number, blocks, get(devx.QPSendCQ),
			get(devx.QPReceiveCQ))
	case devx.OpCreateRMP:
		return fmt.Sprintf("RMP 0x%x of %d receives", number, uint64(1)<<get(devx.WQLogSize))
	case devx.OpCreateDCT:
		return fmt.Sprintf("DCT 0x%x, CQ 0x%x", number, get(devx.DCTCQ))
	default:
		return fmt.Sprintf("0x%x, which %s has made", number, devx.Name(uint16(op)))
	}
}

// quoted returns the name of a program, which anybody may have chosen, for a terminal.
func quoted(name string) string {
	s := strconv.QuoteToASCII(name)
	return s[1 : len(s)-1]
}
