//go:build !amd64

package crc

import "hash/crc32"

// Update returns the CRC of bytes whose CRC is crc, and then b, as crc32.Update with crc32.IEEETable. It
// allocates nothing, and any number of goroutines may use it.
func Update(crc uint32, b []byte) uint32 { return crc32.Update(crc, crc32.IEEETable, b) }
