// Package crc computes the CRC-32 of Ethernet (IEEE 802.3), which is that of the ICRC, faster than hash/crc32
// where processors multiply without carry in vectors (VPCLMULQDQ). Elsewhere it is hash/crc32.
package crc
