//go:build linux && (amd64 || arm64)

package verbs

import "slices"

// LIDs of InfiniBand ports. All engines that links join are in one subnet, and a subnet manager is said to
// be there.
const (
	subnetManagerLID = 1
	firstLID         = 2      // the least that a port can have
	multicastLID     = 0xc000 // the first LID of a multicast group
	permissiveLID    = 0xffff
)

// chooseLIDs returns the first of n LIDs in a row, those of an engine's devices. It follows from the GUID, so
// that it stays when the engine starts again, and differs from that of most other engines: of 49,150 LIDs two
// engines rarely have the same. LIDs that are taken already are left to those who have them.
func chooseLIDs(guid uint64, n int, taken []uint16) (first uint16) {
	const golden = 0x9e3779b97f4a7c15 // 2^64 divided by the golden ratio: GUIDs in a row get LIDs far apart
	choices := uint64(multicastLID - firstLID - n + 1)
	start := (guid * golden >> 32) % choices
	for i := range choices {
		first = firstLID + uint16((start+i)%choices)
		isOne := func(lid uint16) bool { return lid >= first && lid < first+uint16(n) }
		if !slices.ContainsFunc(taken, isOne) {
			return first
		}
	}
	return firstLID + uint16(start)
}

// takenLIDs returns the LIDs of the ports of other engines that links know now.
func takenLIDs(f Fabric) (list []uint16) {
	if f == nil {
		return nil
	}
	for _, p := range f.Ports() {
		list = append(list, p.LID)
	}
	return list
}

// hasLID reports whether a device of this server has an InfiniBand port with a LID.
func (s *Server) hasLID(lid uint16) bool {
	return lid != 0 && slices.ContainsFunc(s.devices, func(d *device) bool { return d.lid == lid })
}
