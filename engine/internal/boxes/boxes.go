//go:build linux && (amd64 || arm64)

package boxes

import (
	"crypto/rand"
	"encoding/binary"
	"slices"
	"sync"

	"github.com/nicless/nicless/internal/board"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/internal/rendezvous"
)

// Most is how many clients of a device can have boxes: as many as can announce something.
const Most = 4096

// Depth is how many messages wait in a box. With their values they are 27 KiB, which is less than the pages
// that each client is given and charged. A program that listens under a name with 128 others who dial at
// once drops none of the first messages.
const Depth = 128

// A Sender carries a message from the box of a user's client to another device.
type Sender func(to nic.BoxMessage, from uint64, who nic.User) error

// An Office has the boxes of a device's clients. The zero Office has none. Its methods are safe for
// concurrent use, and do not wait.
type Office struct {
	mu       sync.Mutex
	byNumber map[uint64]*box
	byOwner  map[any]*box
	carry    Sender
}

// A box belongs to a client.
type box struct {
	owner    any
	number   uint64
	messages []nic.BoxMessage
	each     map[source]int // how many of the messages are of each sender; none has 0
	quiet    bool           // the owner has been notified since it found the box empty
	listens  bool           // the owner has announced names
	dialler  uint32         // if so: the user whose clients may dial it, or board.AllUsers
}

// A source is the sender of a message, as far as the engine knows it: a client of this engine or of one that
// a pool or UCX joins with it, or an IP address, at which anybody can make up numbers of boxes.
type source struct {
	device, number uint64
	gid            [16]byte
}

func sourceOf(m *nic.BoxMessage) source {
	if m.GID != ([16]byte{}) {
		return source{gid: m.GID}
	}
	return source{device: m.Device, number: m.Number}
}

// makeRoom reports whether there is room for another message of a sender. A full box drops the newest message
// of the sender that has the most in it, if the other then has no more than that one: so those who send
// without an end leave room for all others.
func (b *box) makeRoom(from source) bool {
	if len(b.messages) < Depth {
		return true
	}
	var most source
	for s, n := range b.each {
		if n > b.each[most] {
			most = s
		}
	}
	if b.each[most] < b.each[from]+2 {
		return false
	}
	for i, m := range slices.Backward(b.messages) {
		if sourceOf(&m) == most {
			b.messages = slices.Delete(b.messages, i, i+1)
			break
		}
	}
	b.count(most, -1)
	return true
}

// count counts messages of a sender that come or go.
func (b *box) count(from source, n int) {
	b.each[from] += n
	if b.each[from] == 0 {
		delete(b.each, from)
	}
}

// Open returns the number of the owner's box, and makes one if it has none.
func (o *Office) Open(owner any) (number uint64, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if b := o.byOwner[owner]; b != nil {
		return b.number, nil
	}
	if len(o.byOwner) >= Most {
		return 0, control.Errorf(control.CodeLimit, "%d clients have boxes for messages already; that is the most", Most)
	}
	if o.byOwner == nil {
		o.byOwner, o.byNumber = make(map[any]*box), make(map[uint64]*box)
	}
	b := &box{owner: owner, each: make(map[source]int)}
	for b.number == 0 || o.byNumber[b.number] != nil {
		var random [8]byte
		_, _ = rand.Read(random[:]) // it never fails
		b.number = binary.LittleEndian.Uint64(random[:])
	}
	o.byOwner[owner], o.byNumber[b.number] = b, b
	return b.number, nil
}

// Close takes the box from its owner.
func (o *Office) Close(owner any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if b := o.byOwner[owner]; b != nil {
		delete(o.byOwner, owner)
		delete(o.byNumber, b.number)
	}
}

// Of returns the number of the owner's box, 0 if it has none.
func (o *Office) Of(owner any) uint64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	if b := o.byOwner[owner]; b != nil {
		return b.number
	}
	return 0
}

// Listen says who may dial the owner: clients of a user, or of all (board.AllUsers). It stays so when the
// owner withdraws its names: dials that have come before are sent again until they are answered.
func (o *Office) Listen(owner any, user uint32) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if b := o.byOwner[owner]; b != nil {
		b.listens, b.dialler = true, user
	}
}

// admits returns why a message may not come into the box, or nil. Only a Dial needs the user: what else comes
// is an answer to a message that has come from the box, or of no use, and its ID is a random number that only
// both sides know. A Dial of a name that nobody can have is one, too: a client in C, whose strings end at a
// zero byte, may take it for one of its own name.
func (b *box) admits(m *nic.BoxMessage) error {
	if b.listens && (b.dialler == board.AllUsers || b.dialler == m.User) {
		return nil
	}
	name, ok := rendezvous.Dialled(m.Value)
	if !ok {
		return nil
	}
	return control.Errorf(control.CodeDenied, "%q is not a name of that client for programs of this user", name)
}

// Deliver puts a message into a box. tell is the owner of the box if it has to be notified, or nil. The error
// is that of a dial which the owner does not get.
func (o *Office) Deliver(to uint64, m nic.BoxMessage) (tell any, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	b := o.byNumber[to]
	if b == nil || len(m.Value) > control.MaxMessageValue {
		return nil, nil
	}
	if err := b.admits(&m); err != nil {
		return nil, err
	}
	from := sourceOf(&m)
	if !b.makeRoom(from) {
		return nil, nil
	}
	b.count(from, 1)
	b.messages = append(b.messages, m)
	if b.quiet {
		return nil, nil
	}
	b.quiet = true
	return b.owner, nil
}

// Next takes the oldest message from the owner's box. If there is none, the owner is notified of the next.
func (o *Office) Next(owner any) (m nic.BoxMessage, ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	b := o.byOwner[owner]
	switch {
	case b == nil:
		return m, false
	case len(b.messages) == 0:
		b.quiet, b.messages = false, nil
		return m, false
	}
	m, b.messages = b.messages[0], b.messages[1:]
	b.count(sourceOf(&m), -1)
	return m, true
}

// Missed says that the owner could not be notified: the next message notifies it.
func (o *Office) Missed(owner any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if b := o.byOwner[owner]; b != nil {
		b.quiet = false
	}
}

// SetSender sets the function that carries messages to other devices; nil: there are no links.
func (o *Office) SetSender(f Sender) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.carry = f
}

// Sender returns that function.
func (o *Office) Sender() Sender {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.carry
}
