package mad

import "encoding/binary"

// Sizes in bytes of the header of struct ib_user_mad, without and with the index of the P_Key.
const (
	OldUserSize = 56
	UserSize    = 64
)

// Numbers of the ioctls of a umad (rdma_user_ioctl.h).
const (
	RegisterAgent   = 0xc01c1b01
	UnregisterAgent = 0x40041b02
	EnablePKey      = 0x00001b03
	RegisterAgent2  = 0xc0281b04
)

// Sizes in bytes of the arguments of the ioctls.
const (
	RegisterSize   = 28
	Register2Size  = 40
	UnregisterSize = 4
)

// A User is a struct ib_user_mad_hdr: where a datagram goes to, or from where it has come.
type User struct {
	ID, Status, Timeout, Retries, Length uint32 // of the host's byte order; Timeout in ms, Length in bytes
	QPN, QKey                            uint32
	LID                                  uint16
	SL, PathBits                         uint8
	GRH                                  bool
	GIDIndex, HopLimit, TrafficClass     uint8
	GID                                  [16]byte
	FlowLabel                            uint32
	PKeyIndex                            uint16 // only if the header has UserSize bytes
}

var le, be = binary.LittleEndian, binary.BigEndian

// ParseUser parses a header of len(b) bytes: OldUserSize or UserSize.
func ParseUser(b []byte) (u User) {
	u = User{
		ID: le.Uint32(b), Status: le.Uint32(b[4:]),
		Timeout: le.Uint32(b[8:]), Retries: le.Uint32(b[12:]),
		Length: le.Uint32(b[16:]),
		QPN:    be.Uint32(b[20:]), QKey: be.Uint32(b[24:]),
		LID: be.Uint16(b[28:]), SL: b[30], PathBits: b[31],
		GRH: b[32] != 0, GIDIndex: b[33], HopLimit: b[34], TrafficClass: b[35],
		GID: [16]byte(b[36:]), FlowLabel: be.Uint32(b[52:]),
	}
	if len(b) >= UserSize {
		u.PKeyIndex = le.Uint16(b[56:])
	}
	return u
}

// Put writes the header to b, which has OldUserSize or UserSize bytes.
func (u User) Put(b []byte) {
	clear(b)
	le.PutUint32(b, u.ID)
	le.PutUint32(b[4:], u.Status)
	le.PutUint32(b[8:], u.Timeout)
	le.PutUint32(b[12:], u.Retries)
	le.PutUint32(b[16:], u.Length)
	be.PutUint32(b[20:], u.QPN)
	be.PutUint32(b[24:], u.QKey)
	be.PutUint16(b[28:], u.LID)
	b[30], b[31] = u.SL, u.PathBits
	if u.GRH {
		b[32] = 1
	}
	b[33], b[34], b[35] = u.GIDIndex, u.HopLimit, u.TrafficClass
	copy(b[36:], u.GID[:])
	be.PutUint32(b[52:], u.FlowLabel)
	if len(b) >= UserSize {
		le.PutUint16(b[56:], u.PKeyIndex)
	}
}

// A Registration is what a program asks of an agent: which unsolicited datagrams it gets.
type Registration struct {
	QPN            uint32
	Class, Version uint8
	RMPP           uint8
	Flags          uint32 // of RegisterAgent2 only
	OUI            uint32
	Methods        [2]uint64 // bit i%64 of word i/64: method i, from 0 to 127
}

// ParseRegister parses struct ib_user_mad_reg_req, of RegisterSize bytes.
func ParseRegister(b []byte) Registration {
	return Registration{QPN: uint32(b[20]), Class: b[21], Version: b[22],
		OUI:  uint32(b[23])<<16 | uint32(b[24])<<8 | uint32(b[25]),
		RMPP: b[26], Methods: [2]uint64{le.Uint64(b[4:]), le.Uint64(b[12:])}}
}

// ParseRegister2 parses struct ib_user_mad_reg_req2, of Register2Size bytes.
func ParseRegister2(b []byte) Registration {
	return Registration{QPN: le.Uint32(b[4:]), Class: b[8], Version: b[9], Flags: le.Uint32(b[12:]),
		Methods: [2]uint64{le.Uint64(b[16:]), le.Uint64(b[24:])}, OUI: le.Uint32(b[32:]), RMPP: b[36]}
}

// Has reports whether the registration has a method, from 0 to 127.
func (r *Registration) Has(method uint8) bool { return r.Methods[method>>6&1]>>(method&63)&1 != 0 }
