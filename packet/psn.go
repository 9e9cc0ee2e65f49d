package packet

// AddPSN returns the PSN that is n after p. It has 24 bits.
func AddPSN(p uint32, n uint32) uint32 { return (p + n) & mask24 }

// DiffPSN returns a - b, for PSNs that are less than 2^23 apart: negative if a is before b.
// Bits above the low 24 of a and b do not count.
func DiffPSN(a, b uint32) int32 { return int32((a-b)<<8) >> 8 }
