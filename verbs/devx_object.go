//go:build linux && (amd64 || arm64)

package verbs

import (
	"encoding/binary"
	"errors"

	"github.com/nicless/nicless/field/devx"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/verbs/internal/abi"
)

// Objects that are made by firmware commands (DEVX): the same objects of the engine as those that the verbs
// make. Only the place where a program says what it wants differs: a mailbox names rings by a umem and an
// offset, and other objects by their numbers.

// makers has the commands that make objects in a context with firmware commands.
var makers map[uint16]func(*call, []byte) error

func init() { // not a literal, because the functions run code that refers to this map
	makers = map[uint16]func(*call, []byte) error{
		devx.OpCreateMkey: createMkey, devx.OpCreateGeneralObject: createGeneralObject,
		devx.OpCreateCQ: makeCQ, devx.OpCreateQP: makeQP,
		devx.OpCreateRMP: makeRMP, devx.OpCreateDCT: makeDCT,
	}
}

// checkLengths returns an error if the mailboxes are too short for a command.
func (c *call) checkLengths(cmd []byte, room int) error {
	d := devx.Find(binary.BigEndian.Uint16(cmd))
	switch {
	case d == nil:
		return nil
	case len(cmd) < d.InSize:
		return firmwareError(devx.StatusBadInputLength, uint32(d.Op)<<16, "%s of %d bytes; at least %d are needed", d.Name, len(cmd), d.InSize)
	case room < d.OutSize:
		return firmwareError(devx.StatusBadOutputLength, uint32(d.Op)<<16, "%s with room for %d bytes of the answer; at least %d are needed", d.Name, room, d.OutSize)
	}
	return nil
}

// syndromeOf is devx.SyndromeOf of a command.
func syndromeOf(cmd []byte, f *devx.Field) uint32 {
	return devx.SyndromeOf(binary.BigEndian.Uint16(cmd), f)
}

// wrong returns the error for a field of a command. The format says what is wrong with it.
func wrong(cmd []byte, f *devx.Field, s devx.Status, format string, args ...any) error {
	args = append([]any{devx.Find(binary.BigEndian.Uint16(cmd)).Name, f.Name, f.Place(), f.Get(cmd)}, args...)
	return firmwareError(s, syndromeOf(cmd, f), "%s: %s (%s) is %#x: "+format, args...)
}

// wrongFor is wrong with the words of another error.
func wrongFor(cmd []byte, f *devx.Field, s devx.Status, err error) error {
	if err == errAgain {
		return err
	}
	return wrong(cmd, f, s, "%v", err)
}

// statuses has the status of a command that the engine refused.
var statuses = map[control.Code]devx.Status{
	control.CodeInvalid: devx.StatusBadParameter, control.CodeUnsupported: devx.StatusBadParameter,
	control.CodeNotFound: devx.StatusBadResource, control.CodeBusy: devx.StatusResourceBusy,
	control.CodeLimit: devx.StatusLimit, control.CodeState: devx.StatusBadQPState,
	control.CodeMemory: devx.StatusNoResources, control.CodeDenied: devx.StatusBadSystemState,
}

// refusedByEngine turns an error of the engine into that of a firmware command. Other errors stay: they
// have an errno already.
func refusedByEngine(cmd []byte, err error) error {
	var e *control.Error
	if !errors.As(err, &e) || e.Code.Errno() != 0 {
		return err
	}
	op := binary.BigEndian.Uint16(cmd)
	return firmwareError(statuses[e.Code], uint32(op)<<16, "%s: %s", devx.Name(op), e.Text)
}

// asFirmware turns the refusal of a command that contexts without DEVX have too into the answer of a
// firmware.
func asFirmware(cmd []byte, err error) error {
	var r *refusal
	if errors.As(err, &r) && r.out == nil && r != errAgain && (r.errno == eINVAL || r.errno == eOPNOTSUPP) {
		op := binary.BigEndian.Uint16(cmd)
		return firmwareError(devx.StatusBadParameter, uint32(op)<<16, "%s", r.text)
	}
	return refusedByEngine(cmd, err)
}

// umemNamed returns the umem whose number is in a field.
func (x *uctx) umemNamed(cmd []byte, f *devx.Field) (*umem, error) {
	u := x.umems[uint32(f.Get(cmd))]
	if u == nil {
		return nil, wrong(cmd, f, devx.StatusBadResource, "this context has no such umem")
	}
	return u, nil
}

// A place is the two fields of a command that say where a ring or a record is.
type place struct {
	umem, offset *devx.Field
	name         string
}

// memoryAt returns the umem that a place names, and the engine's address of the n bytes there.
func (x *uctx) memoryAt(cmd []byte, p place, n, align uint64) (*umem, uint64, error) {
	u, err := x.umemNamed(cmd, p.umem)
	if err != nil {
		return nil, 0, err
	}
	addr, err := u.at(p.offset.Get(cmd), n, align, p.name)
	if err != nil {
		return nil, 0, wrongFor(cmd, p.offset, devx.StatusBadParameter, err)
	}
	return u, addr, nil
}

// pageNamed returns the UAR page whose number is in a field.
func (x *uctx) pageNamed(cmd []byte, f *devx.Field) (uint16, error) {
	page, err := x.uarPage(uint32(f.Get(cmd)))
	if err != nil {
		return 0, wrongFor(cmd, f, devx.StatusBadResource, err)
	}
	return page, nil
}

// domainNamed returns the protection domain whose number is in a field.
func (x *uctx) domainNamed(cmd []byte, f *devx.Field) (*pd, error) {
	p := x.domains[uint32(f.Get(cmd))]
	if p == nil {
		return nil, wrong(cmd, f, devx.StatusBadResource, "this context has no such protection domain")
	}
	return p, nil
}

// numbered returns the queue of a kind whose number is in a field. The verbs or a firmware command made it.
func numbered[T eventSource](x *uctx, cmd []byte, f *devx.Field, k kind) (T, error) {
	q, ok := x.numbers[numberOf(k, uint32(f.Get(cmd)))].(T)
	if !ok {
		return q, wrong(cmd, f, devx.StatusBadResource, "this context has no such %v", k)
	}
	return q, nil
}

// putMade answers a command that has made an object: its handle, and its number in a field.
func (c *call) putMade(o *object, f *devx.Field, number uint32) {
	out := make([]byte, devx.HeadSize)
	f.Put(out, uint64(number))
	c.putHandle(abi.MLX5AttrDEVXObjCreateHandle, o)
	c.put(abi.MLX5AttrDEVXObjCreateCmdOut, out)
}
