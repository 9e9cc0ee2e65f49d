//go:build linux && (amd64 || arm64)

package exchange

import (
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/nicless/nicless"
)

// Messages begin with a word that says what they are. Those with data have its number of bytes and the
// seed of its contents in the next two.
const (
	isWritten = iota + 1 // the sender has written so many bytes into the receiver's memory
	isData               // they follow
	isEnd
	isAnswer // text follows; none: all is well
	headSize = 24
)

// sizes of requests. The third takes several packets, the fourth several rings full of them.
var sizes = []int{8, 1000, 20000, most - headSize}

// fill writes contents that depend on the seed and on the place of each byte.
func fill(b []byte, seed uint64) {
	for i := range b {
		b[i] = at(seed, i)
	}
}

func at(seed uint64, i int) byte {
	x := (seed<<32 + uint64(i>>3) + 1) * 0x9e3779b97f4a7c15
	return byte(x >> (32 + i&7*4))
}

// compare returns what is wrong with contents.
func compare(b []byte, seed uint64) error {
	for i := range b {
		if want := at(seed, i); b[i] != want {
			return fmt.Errorf("byte %d of %d is %#02x, and %#02x was sent", i, len(b), b[i], want)
		}
	}
	return nil
}

// sendMessage sends a message: n bytes of data are behind its head already.
func (p *poster) sendMessage(kind, size, seed uint64, n int) error {
	b := p.mr.Bytes()[source:]
	for i, w := range []uint64{kind, size, seed} {
		binary.BigEndian.PutUint64(b[8*i:], w)
	}
	return p.do(&nicless.SendWR{Op: nicless.Send, SGE: []nicless.SGE{p.mr.SGE(source, headSize+n)}})
}

// requestAll does everything, so many times.
func (p *poster) requestAll(rounds int) error {
	sum := uint64(0) // what is in the counter of the other side
	for round := 1; rounds == 0 || round <= rounds; round++ {
		for _, size := range sizes {
			seed := uint64(round)<<20 + uint64(size)
			if err := p.write(size, seed); err != nil {
				return fmt.Errorf("round %d, %d bytes: %w", round, size, err)
			}
			if err := p.send(size, seed+1); err != nil {
				return fmt.Errorf("round %d, %d bytes: %w", round, size, err)
			}
		}
		if err := p.atomics(&sum, uint64(round)); err != nil {
			return fmt.Errorf("round %d: %w", round, err)
		}
		if round&(round-1) == 0 {
			fmt.Printf("round %d\n", round)
		}
	}
	return p.sendMessage(isEnd, 0, 0, 0)
}

// write writes, lets the other side check, and reads back.
func (p *poster) write(size int, seed uint64) error {
	fill(p.mr.Bytes()[source:][:size], seed)
	if err := p.do(&nicless.SendWR{Op: nicless.Write, SGE: []nicless.SGE{p.mr.SGE(source, size)},
		RemoteAddr: p.theirs.Addr + shared, RKey: p.theirs.RKey}); err != nil {
		return err
	}
	if err := p.sendMessage(isWritten, uint64(size), seed, 0); err != nil {
		return err
	}
	if err := p.message(answered); err != nil {
		return fmt.Errorf("WRITE: %w", err)
	}
	got := p.mr.Bytes()[back:][:size]
	clear(got)
	if err := p.do(&nicless.SendWR{Op: nicless.Read, SGE: []nicless.SGE{p.mr.SGE(back, size)},
		RemoteAddr: p.theirs.Addr + shared, RKey: p.theirs.RKey}); err != nil {
		return err
	}
	if err := compare(got, seed); err != nil {
		return fmt.Errorf("READ: %w", err)
	}
	p.bytes += 2 * uint64(size)
	return nil
}

// send sends, and lets the other side check.
func (p *poster) send(size int, seed uint64) error {
	fill(p.mr.Bytes()[source+headSize:][:size], seed)
	if err := p.sendMessage(isData, uint64(size), seed, size); err != nil {
		return err
	}
	if err := p.message(answered); err != nil {
		return fmt.Errorf("SEND: %w", err)
	}
	p.bytes += uint64(size)
	return nil
}

// atomics changes the other side's counter, whose value sum is known.
func (p *poster) atomics(sum *uint64, add uint64) error {
	one := func(wr nicless.SendWR) (uint64, error) {
		wr.SGE, wr.RemoteAddr, wr.RKey = []nicless.SGE{p.mr.SGE(back, 8)}, p.theirs.Addr+counter,
			p.theirs.RKey
		err := p.do(&wr)
		return p.mr.Load64(back), err
	}
	for _, s := range []struct {
		wr   nicless.SendWR
		then uint64
	}{
		{nicless.SendWR{Op: nicless.FetchAdd, SwapAdd: add}, *sum + add},
		{nicless.SendWR{Op: nicless.CompareSwap, Compare: *sum + add, SwapAdd: *sum + add + 1}, *sum + add + 1},
		{nicless.SendWR{Op: nicless.CompareSwap, Compare: *sum, SwapAdd: 0}, *sum + add + 1}, // does not find what it wants
	} {
		old, err := one(s.wr)
		if err != nil {
			return err
		}
		if old != *sum && s.wr.Op == nicless.FetchAdd {
			return fmt.Errorf("%v found %d, and there was %d", s.wr.Op, old, *sum)
		}
		now, err := one(nicless.SendWR{Op: nicless.FetchAdd})
		if err != nil {
			return err
		}
		if now != s.then {
			return fmt.Errorf("after %v there is %d, and should be %d", s.wr.Op, now, s.then)
		}
	}
	*sum += add + 1
	p.bytes += 6 * 8
	return nil
}

func answered(b []byte) error {
	if len(b) < headSize || binary.BigEndian.Uint64(b) != isAnswer {
		return fmt.Errorf("no answer, but %d bytes: %x", len(b), b[:min(len(b), headSize)])
	}
	if text := string(b[headSize:]); text != "" {
		return fmt.Errorf("the other side says: %s", text)
	}
	return nil
}

// answer does what the other side asks, until its end.
func (p *poster) answer() error {
	for end := false; !end; {
		var wrong []string
		if err := p.message(func(b []byte) error {
			if len(b) < headSize {
				return fmt.Errorf("a message of %d bytes", len(b))
			}
			kind, n, seed := binary.BigEndian.Uint64(b), binary.BigEndian.Uint64(b[8:]),
				binary.BigEndian.Uint64(b[16:])
			data := b[headSize:]
			switch kind {
			case isWritten:
				data = p.mr.Bytes()[shared:][:min(n, most)]
			case isData:
			case isEnd:
				end = true
				return nil
			default:
				return fmt.Errorf("a message of kind %d", kind)
			}
			if uint64(len(data)) != n {
				wrong = append(wrong, fmt.Sprintf("%d bytes have come of %d", len(data), n))
			} else if err := compare(data, seed); err != nil {
				wrong = append(wrong, err.Error())
			}
			p.bytes += n
			return nil
		}); err != nil {
			return err
		}
		if end {
			return nil
		}
		text := strings.Join(wrong, "; ")
		if err := p.sendMessage(isAnswer, 0, 0,
			copy(p.mr.Bytes()[source+headSize:][:most-headSize], text)); err != nil {
			return err
		}
		if text != "" {
			return fmt.Errorf("wrong contents: %s", text)
		}
	}
	return nil
}
