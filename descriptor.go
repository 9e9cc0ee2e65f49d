package nicless

import (
	"encoding"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net/netip"
	"strconv"
	"unicode/utf8"
)

// DescriptorVersion is the newest version of Descriptor's binary form. Only a Descriptor with an
// Address has version 2; others have version 1, which older programs read too. The JSON form always
// has version 1: older programs pass over its address.
const DescriptorVersion = 2

const jsonVersion = 1

// A Descriptor is the data that a program sends its peer so that the two can connect. It
// names a queue pair, the engine of the queue pair, and memory that the peer may use. The
// programs transfer it as JSON (encoding/json) or as bytes (MarshalBinary), by any means.
type Descriptor struct {
	Device    uint64    // the number of the engine: see Context.Device
	Transport Transport // RC, UC or UD

	// Address is an IP address of the engine. Engines of other hosts connect to it by RoCE, if
	// no other link leads to the engine. The zero Addr means that RoCE cannot be used.
	Address netip.Addr

	QPN    uint32 // 24 bits
	PSN    uint32 // RC and UC: the first packet number that the queue pair sends, 24 bits
	QKey   uint32 // UD: the Q_Key that datagrams to the queue pair must carry
	Memory []RemoteMemory
}

// RemoteMemory is memory of the peer that work requests may name.
type RemoteMemory struct {
	Name   string // says what the memory is for; at most 255 bytes of UTF-8
	Addr   uint64
	Length uint64
	RKey   uint32
}

var (
	_ encoding.BinaryMarshaler   = Descriptor{}
	_ encoding.BinaryUnmarshaler = (*Descriptor)(nil)
	_ json.Marshaler             = Descriptor{}
	_ json.Unmarshaler           = (*Descriptor)(nil)
)

// Descriptor returns a description of the queue pair and of memory that its peer may use. The
// Address is one of the engine's host: the first that a link names (Config.Links), or the one from
// which the host sends to the Internet, or its first. It is zero if the engine opens no RoCE.
func (q *QP) Descriptor(memory ...RemoteMemory) Descriptor {
	d := q.local()
	d.Memory = memory
	if q.c != nil && q.transport != UD {
		d.Address = q.c.address()
	}
	return d
}

// local is Descriptor for a peer that uses the same engine: without an Address, for which the engine
// would have to be asked.
func (q *QP) local() Descriptor {
	if q.c == nil {
		return Descriptor{}
	}
	d := Descriptor{Device: q.c.limits.GUID, Transport: q.transport, QPN: q.qpn}
	if q.transport == UD {
		d.QKey = q.qkey.Load()
	} else {
		d.PSN = q.psn()
	}
	return d
}

// Find returns the memory with that name, or an error if there is none.
func (d *Descriptor) Find(name string) (RemoteMemory, error) {
	for _, m := range d.Memory {
		if m.Name == name {
			return m, nil
		}
	}
	return RemoteMemory{}, fmt.Errorf("nicless: descriptor of QP %#06x has no memory named %q", d.QPN, name)
}

func (d *Descriptor) check() error {
	if d.QPN > 0xffffff || d.PSN > 0xffffff {
		return fmt.Errorf("descriptor: QPN %#x, PSN %#x; 24 bits are possible", d.QPN, d.PSN)
	}
	if d.Transport > UD {
		return fmt.Errorf("descriptor: transport %d; RC (%d), UC (%d) and UD (%d) are known", d.Transport, RC, UC, UD)
	}
	if a := d.Address; a.Zone() != "" || a.Unmap().IsUnspecified() {
		return fmt.Errorf("descriptor: address %v; one without a zone, and not all zeros, is possible", a)
	}
	for _, m := range d.Memory {
		if len(m.Name) > 255 {
			return fmt.Errorf("descriptor: memory name of %d bytes; at most 255 are possible", len(m.Name))
		}
		if !utf8.ValidString(m.Name) {
			return fmt.Errorf("descriptor: memory name %q is not UTF-8", m.Name)
		}
	}
	if len(d.Memory) > 0xffff {
		return fmt.Errorf("descriptor: %d pieces of memory; at most %d are possible", len(d.Memory), 0xffff)
	}
	return nil
}

// version returns the version of the binary form of d.
func (d *Descriptor) version() int {
	if d.Address.IsValid() {
		return 2
	}
	return 1
}

// hex64 is a number written as a string, because some JSON readers keep only 53 bits of a
// number.
type hex64 uint64

func (h hex64) MarshalText() ([]byte, error) { return fmt.Appendf(nil, "0x%016x", uint64(h)), nil }

func (h *hex64) UnmarshalText(b []byte) error {
	v, err := strconv.ParseUint(string(b), 0, 64)
	*h = hex64(v)
	return err
}

type jsonDescriptor struct {
	Version   int          `json:"version"`
	Device    hex64        `json:"device"`
	Transport string       `json:"transport"`
	Address   *netip.Addr  `json:"address,omitempty"`
	QPN       uint32       `json:"qpn"`
	PSN       uint32       `json:"psn"`
	QKey      uint32       `json:"qkey"`
	Memory    []jsonMemory `json:"memory,omitempty"`
}

type jsonMemory struct {
	Name   string `json:"name"`
	Addr   hex64  `json:"addr"`
	Length uint64 `json:"length"`
	RKey   uint32 `json:"rkey"`
}

// MarshalJSON implements json.Marshaler.
func (d Descriptor) MarshalJSON() ([]byte, error) {
	if err := d.check(); err != nil {
		return nil, err
	}
	j := jsonDescriptor{
		Version: jsonVersion, Device: hex64(d.Device), Transport: d.Transport.String(), QPN: d.QPN,
		PSN: d.PSN, QKey: d.QKey,
	}
	if a := d.Address.Unmap(); a.IsValid() {
		j.Address = &a
	}
	for _, m := range d.Memory {
		j.Memory = append(j.Memory, jsonMemory{m.Name, hex64(m.Addr), m.Length, m.RKey})
	}
	return json.Marshal(j)
}

// UnmarshalJSON implements json.Unmarshaler. It refuses all versions except 1.
func (d *Descriptor) UnmarshalJSON(b []byte) error {
	var j jsonDescriptor
	if err := json.Unmarshal(b, &j); err != nil {
		return fmt.Errorf("descriptor: %w", err)
	}
	if j.Version != jsonVersion {
		return fmt.Errorf("descriptor: version %d; this program knows %d", j.Version, jsonVersion)
	}
	n := Descriptor{Device: uint64(j.Device), QPN: j.QPN, PSN: j.PSN, QKey: j.QKey}
	if j.Address != nil {
		n.Address = j.Address.Unmap()
	}
	for j.Transport != "" && n.Transport.String() != j.Transport { // no transport means RC
		n.Transport++
		if n.Transport > UD {
			return fmt.Errorf("descriptor: transport %q; RC, UC and UD are known", j.Transport)
		}
	}
	for _, m := range j.Memory {
		n.Memory = append(n.Memory, RemoteMemory{m.Name, uint64(m.Addr), m.Length, m.RKey})
	}
	if err := n.check(); err != nil {
		return err
	}
	*d = n
	return nil
}

// The binary form, little-endian: u16 version, u16 number of pieces of memory, u32 QPN,
// u32 PSN, u64 device, u32 qkey, u32 transport; in version 2 the 16 bytes of the IP address,
// mapped if it is of IPv4; then for each piece u64 address, u64 length, u32 rkey, u8 length of the
// name, and the name.
const (
	descriptorHead = 28
	addressSize    = 16
	memoryHead     = 21
)

// MarshalBinary implements encoding.BinaryMarshaler.
func (d Descriptor) MarshalBinary() ([]byte, error) {
	if err := d.check(); err != nil {
		return nil, err
	}
	le := binary.LittleEndian
	b := le.AppendUint16(nil, uint16(d.version()))
	b = le.AppendUint16(b, uint16(len(d.Memory)))
	b = le.AppendUint32(b, d.QPN)
	b = le.AppendUint32(b, d.PSN)
	b = le.AppendUint64(b, d.Device)
	b = le.AppendUint32(b, d.QKey)
	b = le.AppendUint32(b, uint32(d.Transport))
	if d.Address.IsValid() {
		a := d.Address.As16()
		b = append(b, a[:]...)
	}
	for _, m := range d.Memory {
		b = le.AppendUint64(b, m.Addr)
		b = le.AppendUint64(b, m.Length)
		b = le.AppendUint32(b, m.RKey)
		b = append(b, byte(len(m.Name)))
		b = append(b, m.Name...)
	}
	return b, nil
}

// UnmarshalBinary implements encoding.BinaryUnmarshaler. It refuses versions above
// DescriptorVersion, and bytes after the end of the descriptor.
func (d *Descriptor) UnmarshalBinary(b []byte) error {
	le := binary.LittleEndian
	if len(b) < descriptorHead {
		return fmt.Errorf("descriptor: %d bytes; at least %d are needed", len(b), descriptorHead)
	}
	version := le.Uint16(b)
	if version < 1 || version > DescriptorVersion {
		return fmt.Errorf("descriptor: version %d; this program knows 1 to %d", version, DescriptorVersion)
	}
	count := int(le.Uint16(b[2:]))
	n := Descriptor{QPN: le.Uint32(b[4:]), PSN: le.Uint32(b[8:]), Device: le.Uint64(b[12:]),
		QKey: le.Uint32(b[20:])}
	tr := le.Uint32(b[24:])
	if tr > uint32(UD) {
		return fmt.Errorf("descriptor: transport %d; RC (%d), UC (%d) and UD (%d) are known", tr, RC, UC, UD)
	}
	n.Transport = Transport(tr)
	b = b[descriptorHead:]
	if version > 1 {
		if len(b) < addressSize {
			return fmt.Errorf("descriptor: ends within the address")
		}
		n.Address, b = netip.AddrFrom16([addressSize]byte(b)).Unmap(), b[addressSize:]
	}
	for ; count > 0; count-- {
		if len(b) < memoryHead || len(b) < memoryHead+int(b[20]) {
			return fmt.Errorf("descriptor: ends within memory %d", len(n.Memory))
		}
		size := memoryHead + int(b[20])
		n.Memory = append(n.Memory, RemoteMemory{
			Addr: le.Uint64(b), Length: le.Uint64(b[8:]), RKey: le.Uint32(b[16:]),
			Name: string(b[memoryHead:size]),
		})
		b = b[size:]
	}
	if len(b) > 0 {
		return fmt.Errorf("descriptor: %d bytes after its end", len(b))
	}
	if err := n.check(); err != nil {
		return err
	}
	*d = n
	return nil
}
