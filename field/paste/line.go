package paste

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// maxLine is the longest line that is read whole, in bytes. A line has at most the dump of a
// WQE of 1024 bytes in libxlio's form, or some 16 KiB of plain digits.
const maxLine = 64 << 10

// lines reads lines of bounded length.
type lines struct {
	r    *bufio.Reader
	buf  []byte
	n    int  // number of the line, from 1
	wide bool // UTF-16, as PowerShell writes it
	cut  int  // first line that was longer than maxLine, or 0
}

func newLines(r io.Reader) *lines {
	l := &lines{r: bufio.NewReaderSize(r, 64<<10)}
	if mark, _ := l.r.Peek(2); len(mark) == 2 {
		l.wide = (mark[0] == 0xff && mark[1] == 0xfe) || (mark[0] == 0xfe && mark[1] == 0xff)
	}
	return l
}

// next returns the next line without its end. The bytes are valid until the next call. The error
// is io.EOF after the last line.
func (l *lines) next() ([]byte, error) {
	l.buf = l.buf[:0]
	l.n++
	for some := false; ; some = true {
		part, err := l.r.ReadSlice('\n')
		if room := maxLine - len(l.buf); len(part) > room {
			part = part[:room]
			if l.cut == 0 {
				l.cut = l.n
			}
		}
		l.buf = append(l.buf, part...)
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err == io.EOF && (some || len(part) > 0), err == nil:
			if l.wide {
				l.buf = narrow(l.buf)
			}
			return clean(l.buf), nil
		}
		l.n--
		return nil, err
	}
}

// narrow makes ASCII of UTF-16: it drops the zero bytes and the mark.
func narrow(b []byte) []byte {
	out := b[:0]
	for _, c := range b {
		if c != 0 && c != 0xff && c != 0xfe {
			out = append(out, c)
		}
	}
	return out
}

// clean removes, in place, what does not belong to the text of a line: its end, escapes of
// terminals, marks of quoted mail ("> "), and the ends of lines in quoted-printable mail.
func clean(b []byte) []byte {
	b = bytes.TrimRight(b, "\r\n \t")
	b = bytes.TrimSuffix(bytes.TrimSuffix(b, []byte("=")), []byte("=0A"))
	if bytes.IndexByte(b, 0x1b) >= 0 {
		b = withoutEscapes(b)
	}
	for len(b) > 0 && (b[0] == '>' || b[0] == ' ' || b[0] == '\t') {
		b = b[1:]
	}
	return b
}

// withoutEscapes removes escape sequences of terminals: ESC [ … letter, and ESC with the byte
// after it.
func withoutEscapes(b []byte) []byte {
	out := b[:0]
	for i := 0; i < len(b); i++ {
		if b[i] != 0x1b {
			out = append(out, b[i])
			continue
		}
		i++
		if i >= len(b) || b[i] != '[' {
			continue
		}
		for i++; i < len(b) && (b[i] < 0x40 || b[i] > 0x7e); i++ {
		}
	}
	return out
}
