package verbs

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/nicless/nicless/verbs/internal/mad"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// A diagRequest is a line of testdata/umad.txt.
type diagRequest struct {
	qpn, hops     uint32
	lid           uint16
	head          mad.Header
	path, program string
	components    uint64
}

func diagRequests(t *testing.T) (list []diagRequest) {
	text, err := os.ReadFile("testdata/umad.txt")
	require.NoError(t, err)
	for line := range strings.Lines(string(text)) {
		if line[0] == '#' {
			continue
		}
		r := diagRequest{head: mad.Header{BaseVersion: 1, TID: uint64(len(list))}}
		h := &r.head
		_, err := fmt.Sscanf(line, "%d %v %v %d %v %v %v %d %s %v %s", &r.qpn, &r.lid, &h.Class, &h.ClassVersion,
			&h.Method, &h.Attribute, &h.Modifier, &r.hops, &r.path, &r.components, &r.program)
		require.NoError(t, err, line)
		list = append(list, r)
	}
	require.Len(t, list, 50)
	return list
}

// Each request of real programs is answered, with status 0 unless a real device would say otherwise, and with
// the header of the request.
func TestRequestsOfDiags(t *testing.T) {
	m := newMADRig(t)
	first := m.s.devices[0].lid
	lids := map[uint16]uint16{1: subnetManagerLID, 2: first, 3: first + 1, 9: first + 7, 0xffff: permissiveLID}
	const none = mad.StatusInvalid | mad.StatusDirection
	statuses := map[string]uint16{
		"iblinkinfo 0x15 3": none, "iblinkinfo 0x15 4": none, // there are two ports
		"ibping_-c_2_3 0x0 0":                      mad.StatusUnsupported, // nobody listens
		"ibping_-G_-c_1_0x5a4e4cfffe000002 0x35 0": mad.StatusNoRecords,   // the request has no GID here
	}
	agents := map[uint8]uint32{}
	for _, r := range diagRequests(t) {
		id, there := agents[r.head.Class]
		if !there {
			id = uint32(len(agents))
			agents[r.head.Class] = id
			rmpp, oui := uint8(0), uint32(0)
			if r.head.Class == mad.ClassSA {
				rmpp = 1
			}
			if r.head.Class == mad.ClassPing {
				oui = pingOUI
			}
			require.Zero(t, m.ioctl(mad.RegisterAgent, registration(byte(r.qpn), r.head.Class, r.head.ClassVersion, rmpp, oui)))
		}
		data := make([]byte, mad.Size-mad.HeaderSize)
		switch r.head.Class {
		case mad.ClassDirected:
			r.head.Specific = uint16(r.hops)
			path, err := hex.DecodeString(r.path)
			require.NoError(t, err)
			copy(data[mad.InitialPathAt-mad.HeaderSize:], path)
		case mad.ClassSA:
			binary.BigEndian.PutUint64(data[mad.ComponentsAt-mad.HeaderSize:], r.components)
		case mad.ClassPM:
			data[mad.PMPortAt-mad.HeaderSize] = 1
		}
		name := fmt.Sprintf("%s %#x %d", r.program, r.head.Attribute, r.head.Modifier)
		require.Zero(t, m.write(mad.User{ID: id, LID: lids[r.lid], Timeout: 100}, r.head, data...), name)
		u, answer := m.read()
		if r.lid == 9 {
			require.Equal(t, uint32(unix.ETIMEDOUT), u.Status, name)
			continue
		}
		require.Zero(t, u.Status, name)
		h := mad.ParseHeader(answer)
		status := statuses[name]
		if r.head.Class == mad.ClassDirected {
			status |= mad.StatusDirection
		}
		require.Equal(t, status, h.Status, name)
		h.Status, h.TID, h.Method = 0, uint64(uint32(h.TID)), h.Method&^mad.Response
		if r.head.Method == mad.Set {
			r.head.Method = mad.Get // it is GetResp
		}
		require.Equal(t, r.head, h, name)
	}
}
