package nic

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/nicless/nicless/internal/packetring"
)

// A PortConfig is a port that a device is given: two rings of packets, and what is known of the
// network behind them. The device's thread is the producer of Send and the consumer of Receive.
// At the other ends of the rings is a carrier, or another device.
type PortConfig struct {
	Name    string // name of the link in the log and in explanations
	Send    *packetring.Producer
	Receive *packetring.Consumer

	// MTU is the most bytes of payload in a packet: at least 256, at most packetring.MaxPayload.
	// If Jumbo is true, all packets may be as long as that. If not, the path MTU of a queue pair
	// limits its packets too.
	MTU   int
	Jumbo bool

	// GRH says that datagrams are put into Send with the 40 bytes of their GRH before the payload.
	// Datagrams in Receive have these bytes always.
	GRH bool

	// Wakes says that the carrier calls Arrived whenever it has put packets into Receive. If not,
	// and if Asleep is nil, the device naps in place of sleeping.
	Wakes bool

	// Window is how many bytes of payload one queue pair may have on the way without an
	// acknowledgement. The device makes it smaller when packets are lost. On a long path it may
	// have more; see Loses and docs/design/0090. 0 means that the port
	// loses no packets, so that the rings alone limit them.
	Window int

	// Loses says that the network behind the port loses packets. Then the device measures round-trip
	// times, and asks the device at the other end of a path whether it understands reports of what has come.
	Loses bool

	// Wake notifies the carrier that Send has new packets. The device calls it on its thread after
	// packets were published; it must not wait. It can be nil.
	Wake func()

	// Look requests a look with a number at what has come, if it was not requested before. It reports
	// whether the look is complete: after the first call, the carrier has found nothing waiting for it
	// that may be an answer, and all that it found before is in Receive. The device calls it on its
	// thread when an answer has not come in time; it must not wait. It is nil if packets come into
	// Receive without the carrier.
	Look func(number uint32) bool

	// Asleep, if it is not nil, promises that Arrived is called for packets that come while the
	// device sleeps. Before a sleep the device calls Asleep(true), executes shm.Barrier, and looks
	// at Receive once more; after the sleep it calls Asleep(false). All on its thread.
	Asleep func(asleep bool)

	// Failed reports that the device does not use the port any more, because the other side has
	// written what cannot be right into Receive, or because memory of the rings is lost (LostMemory).
	// It is called at most once, on a goroutine of its own. It can be nil.
	Failed func(error)

	// Management is given the packets for QP 1: path is the path by which the packet has come,
	// packet begins with its BTH. It is called on a goroutine of the port's and may wait; packets
	// that come too fast are dropped. The bytes are valid during the call. It can be nil.
	Management func(path uint32, packet []byte)
}

// LostMemory is an error: the address of memory that had no page behind it when the device touched it.
type LostMemory uint64

func (a LostMemory) Error() string {
	return fmt.Sprintf("memory at %#x of the device's mapping has no page behind it", uint64(a))
}

// A Port is a port of a device. Its methods are safe for concurrent use.
type Port interface {
	// Arrived notifies the device that Receive has new packets, in case it sleeps. It does not wait.
	Arrived()

	// SetUp says whether the link behind the port works. A port begins down. While it is down,
	// the device sends nothing and the queue pairs that use it retry until their retries run
	// out. When SetUp(false) has returned, the device does not touch the rings until
	// SetUp(true), so the carrier may reset them.
	SetUp(up bool)

	// SendManagement sends one packet, from its BTH on. It returns an error if the port is down or
	// its ring is full.
	SendManagement(path uint32, head, payload []byte) error

	// Stats returns the counts of the port.
	Stats() PortStats

	// PathCounts returns counts for each path on which queue pairs were connected (Path.Source). A port
	// drops the counts of some of the paths that no queue pair uses any more if there are more than 8192.
	PathCounts() map[uint32]PathCounts

	// Trim gives memory back to the system that the port has not used for 10 seconds. The carrier of a port
	// that loses packets calls it every few seconds. It may wait.
	Trim()

	// Close takes the port away from the device. The queue pairs that use it fail as if their
	// peers did not answer. After Close the device does not touch the rings.
	Close() error
}

// A Path leads from a device to a port of another. The zero value leads nowhere: to the device
// itself.
type Path struct {
	Port   Port
	Number uint32 // path number of packets that are sent
	Source uint32 // path number of packets that come from there
	MTU    int    // most bytes of payload in a packet; 0: as the port's
}

// An Address is how a program names a port of another device, or how a device does.
type Address struct {
	GUID      uint64   // GUID of the other device; if it is not 0, nothing else counts
	GID       [16]byte // GID of the other port
	From      [16]byte // own GID
	LID       uint16   // LID of the other port on InfiniBand; 0 on Ethernet
	Class     uint8    // traffic class
	HopLimit  uint8
	FlowLabel uint32
}

// ErrOpening is wrapped in the error for an address to which a link is being opened: ask again.
var ErrOpening = errors.New("the link is being opened")

// A Router finds paths to ports of other devices. Its methods are safe for concurrent use.
type Router interface {
	// Route returns the path to an address. The error says why there is none; it wraps ErrOpening if there
	// will be one soon. The device may call Route on its thread, but not for each packet: it must not wait.
	Route(to Address) (Path, error)

	// HoldPath returns the path to the device to.GUID over a link that needs no address or, if that is 0,
	// to the address to.GID, from the device's own (Own). The path is kept until release is called. The
	// error wraps ErrDenied if the user may not have it. HoldPath may wait. The device does not call it on
	// its thread.
	HoldPath(to Address, who User) (path Path, release func(), err error)

	// Own returns the address from which packets on paths of HoldPath come: zero if there is none.
	// Own may ask the kernel. The device does not call it on its thread.
	Own() (gid [16]byte)
}

// PortStats are counts since the port was made.
type PortStats struct {
	Up               bool
	Sent, Received   uint64 // packets
	Bytes, GotBytes  uint64 // bytes of payload
	Resent           uint64 // packets that were sent again
	Timeouts         uint64 // times that no answer came in time
	Gaps             uint64 // times that the responder found packets missing
	Duplicates       uint64 // packets received a second time
	Refused          uint64 // NAKs sent, except those for gaps
	NotReady         uint64 // RNR NAKs sent
	Strangers        uint64 // packets from another path, or in another state of the queue pair
	UnknownQPs       uint64 // packets for queue pairs that do not exist
	Malformed        uint64 // packets that are no packets
	WrongKeys        uint64 // requests whose key gives no access to the memory that they name
	OutOfWindow      uint64 // requests whose PSN no lost, repeated or overtaken packet would have
	StrayAnswers     uint64 // answers to nothing that was sent
	Scans            uint64 // times that so many of these two came that a path was mostly closed
	ShutOut          uint64 // packets dropped on such paths
	Doubted          uint64 // requests with the right PSN and another mistake, dropped for the same
	Marks            uint64 // congestion notifications received
	ManagementMissed uint64 // packets for QP 1 that were dropped
	QueuePairs       int    // queue pairs that use the port now
}

// PathCounts are counts of one path of a port. The counts of a port are the sums of those of its paths.
type PathCounts struct {
	Resent   uint64 // packets that were sent again
	Timeouts uint64 // times that no answer came in time
}

// MaxPorts is the most ports that clients of a device see: one for each device of package verbs.
const MaxPorts = 32

// A PortState is the state of a port that clients see. The zero value is the state of a new device.
type PortState struct {
	Down    bool
	Changes uint32 // how often the GID has changed
}

// GID returns the GID that a port has in this state, if the given one is its first. The half of the GID that
// two devices of an engine share changes: no state of one device has a GID of another.
func (s PortState) GID(first [16]byte) [16]byte {
	half := binary.BigEndian.Uint32(first[8:])
	binary.BigEndian.PutUint32(first[8:], half^s.Changes)
	return first
}
