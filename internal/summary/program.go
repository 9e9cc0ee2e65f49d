package summary

import (
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/nicless/nicless/state"
)

const (
	programSize    = 56
	programsOfPart = 3
	nameSize       = 16 // as TASK_COMM_LEN of Linux
)

func putPrograms(b []byte, list []state.Program) []byte {
	le := binary.LittleEndian
	for i := range list {
		p := &list[i]
		for _, v := range []uint32{p.PID, p.Queues, p.Linked, p.Waiting} {
			b = le.AppendUint32(b, v)
		}
		for _, v := range []uint64{p.WQEs, p.Bytes, p.Failed} {
			b = le.AppendUint64(b, v)
		}
		var name [nameSize]byte
		copy(name[:], p.Name)
		b = append(b, name[:]...)
	}
	return b
}

// parsePrograms reads the body of a part that is not the first.
func parsePrograms(body string) (list []state.Program, err error) {
	n := len(body) / programSize
	if n < 1 || n > programsOfPart || len(body) != n*programSize {
		return nil, fmt.Errorf("programs of %d bytes; 1 to %d times %d are possible", len(body), programsOfPart, programSize)
	}
	le := binary.LittleEndian
	for b := []byte(body); len(b) > 0; b = b[programSize:] {
		name, _, _ := strings.Cut(string(b[programSize-nameSize:programSize]), "\x00")
		list = append(list, state.Program{
			PID: le.Uint32(b), Queues: le.Uint32(b[4:]), Linked: le.Uint32(b[8:]), Waiting: le.Uint32(b[12:]),
			WQEs: le.Uint64(b[16:]), Bytes: le.Uint64(b[24:]), Failed: le.Uint64(b[32:]), Name: clean(name),
		})
	}
	return list, nil
}
