package summary

import (
	"encoding/binary"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/state"
)

// Most is the most bytes of a part.
const Most = control.MaxMessageValue

const (
	_ = uint(Most - figuresSize) // both kinds of parts fit
	_ = uint(Most - headSize - programsOfPart*programSize)
)

const (
	kindQuestion = 1
	kindAnswer   = 2
	kindSilent   = 3

	version     = 1
	headSize    = 16
	hostAt      = 112
	figuresSize = hostAt + 1 + state.MaxHost

	flagPrograms = 1
	flagStuck    = 2
)

// MaxParts is the most parts of a summary.
const MaxParts = 1 + (state.MaxPrograms+programsOfPart-1)/programsOfPart

// A Head is the beginning of a question or of an answer.
type Head struct {
	ID         uint64
	Part       uint8
	Parts      uint8  // 0: it is a question
	Generation uint32 // of an answer
	Silent     bool   // the engine tells nothing; Parts is 1
}

// Question reports whether the head is that of a question.
func (h *Head) Question() bool { return h.Parts == 0 }

// Query returns the question for a part.
func Query(id uint64, part uint8) string {
	return string(putHead(kindQuestion, Head{ID: id, Part: part}))
}

// Silent returns the answer of an engine that tells nothing.
func Silent(id uint64) string { return string(putHead(kindSilent, Head{ID: id, Parts: 1})) }

func putHead(kind byte, h Head) []byte {
	b := []byte{kind, version, h.Part, h.Parts}
	b = binary.LittleEndian.AppendUint32(b, h.Generation)
	return binary.LittleEndian.AppendUint64(b, h.ID)
}

// Parse reads the head of a question or of an answer, and returns what follows it.
func Parse(b string) (h Head, body string, err error) {
	if len(b) < headSize || len(b) > Most {
		return h, "", fmt.Errorf("part of a summary of %d bytes; %d to %d are possible", len(b), headSize, Most)
	}
	le := binary.LittleEndian
	kind, head := b[0], []byte(b[:headSize])
	h = Head{Part: b[2], Parts: b[3], Generation: le.Uint32(head[4:]), ID: le.Uint64(head[8:])}
	body = b[headSize:]
	switch {
	case b[1] != version:
		err = fmt.Errorf("part of a summary of version %d; version %d is known", b[1], version)
	case h.Part >= MaxParts:
		err = fmt.Errorf("part %d of a summary; 0 to %d are possible", h.Part, MaxParts-1)
	case kind == kindQuestion:
		if h.Parts != 0 || h.Generation != 0 || body != "" {
			err = fmt.Errorf("question with %d parts, generation %d and %d bytes more; it has none",
				h.Parts, h.Generation, len(body))
		}
	case kind == kindSilent:
		h.Silent = true
		if h.Parts != 1 || h.Part != 0 || body != "" {
			err = fmt.Errorf("refusal with part %d of %d and %d bytes more; it has none", h.Part, h.Parts, len(body))
		}
	case kind != kindAnswer:
		err = fmt.Errorf("part of a summary of kind %d; 1 to 3 are known", kind)
	case h.Part >= h.Parts || h.Parts > MaxParts:
		err = fmt.Errorf("part %d of %d of a summary; at most %d are possible", h.Part, h.Parts, MaxParts)
	}
	if err != nil {
		return Head{}, "", err
	}
	return h, body, nil
}

// Put returns the answer to a question for a part of a summary; "": there is no such part.
func Put(s *state.Summary, generation uint32, id uint64, part uint8) string {
	h := Head{ID: id, Part: part, Parts: parts(s), Generation: generation}
	if part >= h.Parts {
		return ""
	}
	b := putHead(kindAnswer, h)
	if part > 0 {
		first := (int(part) - 1) * programsOfPart
		list := s.Programs[first:min(len(s.Programs), state.MaxPrograms)]
		return string(putPrograms(b, list[:min(len(list), programsOfPart)]))
	}
	return string(putFigures(b, s))
}

// parts returns how many parts a summary has.
func parts(s *state.Summary) uint8 {
	n := min(len(s.Programs), state.MaxPrograms)
	return uint8(1 + (n+programsOfPart-1)/programsOfPart)
}

func putFigures(b []byte, s *state.Summary) []byte {
	le := binary.LittleEndian
	for _, v := range []uint64{s.Time, s.WQEs, s.Bytes, s.Failed, s.Explains, s.Resent, s.Timeouts} {
		b = le.AppendUint64(b, v)
	}
	for _, v := range []uint32{s.PID, s.Clients, s.Running, s.Queues, s.Linked, s.Waiting, s.Faults,
		s.PeersUp, s.PeersDown} {
		b = le.AppendUint32(b, v)
	}
	flags := uint16(0)
	if s.Disclosed {
		flags |= flagPrograms
	}
	if s.Stuck {
		flags |= flagStuck
	}
	b = le.AppendUint16(le.AppendUint16(b, s.Threads), flags)
	host := s.Host[:min(len(s.Host), state.MaxHost)]
	b = append(append(b, byte(len(host))), host...)
	return append(b, make([]byte, figuresSize-len(b))...)
}

// parseFigures reads the body of part 0. Text of others may have any bytes: what cannot be printed becomes
// question marks.
func parseFigures(body string) (s *state.Summary, err error) {
	if len(body) != figuresSize-headSize {
		return nil, fmt.Errorf("figures of %d bytes; %d are needed", len(body), figuresSize-headSize)
	}
	b, le := []byte(body), binary.LittleEndian
	n := int(b[hostAt-headSize])
	if n > state.MaxHost {
		return nil, fmt.Errorf("name of a machine of %d bytes; at most %d are possible", n, state.MaxHost)
	}
	s = &state.Summary{Host: clean(body[hostAt-headSize+1:][:n])}
	for _, v := range []*uint64{&s.Time, &s.WQEs, &s.Bytes, &s.Failed, &s.Explains, &s.Resent, &s.Timeouts} {
		*v, b = le.Uint64(b), b[8:]
	}
	for _, v := range []*uint32{&s.PID, &s.Clients, &s.Running, &s.Queues, &s.Linked, &s.Waiting, &s.Faults,
		&s.PeersUp, &s.PeersDown} {
		*v, b = le.Uint32(b), b[4:]
	}
	flags := le.Uint16(b[2:])
	s.Threads, s.Disclosed, s.Stuck = le.Uint16(b), flags&flagPrograms != 0, flags&flagStuck != 0
	return s, nil
}

// clean returns a text with question marks in place of what cannot be printed.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, s)
}
