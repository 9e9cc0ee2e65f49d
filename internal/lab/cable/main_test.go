package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Only UDP datagrams to RoCE's port can be lost.
func TestIsRoCE(t *testing.T) {
	frame := func(kind uint16, size int, protocolAt int, protocol byte, port uint16) []byte {
		f := make([]byte, 14+size+8)
		f[12], f[13] = byte(kind>>8), byte(kind)
		f[14] = 0x40 | byte(size/4)
		f[14+protocolAt] = protocol
		f[14+size+2], f[14+size+3] = byte(port>>8), byte(port)
		return f
	}
	for name, row := range map[string]struct {
		frame []byte
		want  bool
	}{
		"IPv4":              {frame(0x0800, 20, 9, 17, 4791), true},
		"IPv4 with options": {frame(0x0800, 24, 9, 17, 4791), true},
		"IPv6":              {frame(0x86dd, 40, 6, 17, 4791), true},
		"another port":      {frame(0x0800, 20, 9, 17, 4792), false},
		"TCP":               {frame(0x0800, 20, 9, 6, 4791), false},
		"TCP over IPv6":     {frame(0x86dd, 40, 6, 6, 4791), false},
		"ARP":               {frame(0x0806, 20, 9, 17, 4791), false},
		"short IPv4":        {frame(0x0800, 20, 9, 17, 4791)[:36], false},
		"short IPv6":        {frame(0x86dd, 40, 6, 17, 4791)[:56], false},
		"empty":             {nil, false},
	} {
		require.Equal(t, row.want, isRoCE(row.frame), name)
	}
}
