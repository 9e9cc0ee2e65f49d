package verbs

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/verbs/internal/cm"
	"github.com/stretchr/testify/require"
)

// The constants in wire.go are equal to those of shim/wire.h, as a C compiler evaluates them.
func TestWireIsTheHeader(t *testing.T) {
	cc, err := exec.LookPath("cc")
	if err == nil {
		check := exec.Command(cc, "-fsyntax-only", "-x", "c", "-")
		check.Stdin = strings.NewReader("#include <stdint.h>\n")
		err = check.Run()
	}
	if err != nil {
		missing(t, "needs a C compiler (Debian: apt install gcc libc6-dev): %v", err)
	}
	want := map[string]int{
		"NV_MAGIC": wireMagic, "NV_MAJOR": wireMajor, "NV_MINOR": wireMinor, "NV_MAX_DATAGRAM": maxDatagram, "NV_MAX_FDS": maxFDs,
		"NV_HELLO": int(opHello), "NV_OPEN": int(opOpen), "NV_ADOPT": int(opAdopt), "NV_IOCTL": int(opIoctl), "NV_MMAP": int(opMmap),
		"NV_ALLOC": int(opAlloc), "NV_FREE": int(opFree), "NV_ADDRESSES": int(opAddresses), "NV_ANSWER": flagAnswer, "NV_AGAIN": flagAgain, "NV_FAILED": flagFailed,
		"NV_WANT_FAST": wantFast, "NV_HAS_UFFD": hasUFFD, "NV_WANT_DEVX": wantDEVX, "NV_NO_DEVX": noDEVX,
		"NV_WANT_GUARD": wantGuard, "NV_NO_GUARD": noGuard,
		"NV_OUT_BYTES": outBytes, "NV_OUT_VALUE": outValue, "NV_OUT_FD": outFD, "NV_OUT_FD_INSIDE": outFDInside, "NV_OUT_BACK": outBack, "NV_HEAP": inHeap,
		"NV_NEED_FD": needFD, "NV_NEED_REMAP": needRemap, "NV_NEED_TRY_REMAP": needTryRemap, "NV_NEED_FD_NUMBER": needFDNumber, "NV_NEED_TOKEN": needToken, "NV_NEED_ROUTE": needRoute, "NV_NEED_BYTES": needBytes, "NV_NEED_ADDRESSES": needAddresses,
		"NV_OPEN_CHANNEL": int(opOpenChannel), "NV_WRITE": int(opWrite), "NV_NETLINK": int(opNetlink), "NV_COUNTER": int(opCounter), "NV_OPEN_MAD": int(opOpenMAD), "NV_MAD_IOCTL": int(opMADIoctl), "NV_MAD_READ": int(opMADRead), "NV_MAD_ARG": madArg,
		"NV_NETLINK_OPEN": netlinkOpen, "NV_NETLINK_GROUPS": netlinkGroups, "NV_NETLINK_GET": netlinkGet, "sizeof NV_NETLINK_NAME": len(netlinkName),
		"sizeof(struct nv_netlink)": netlinkSize, "offsetof(struct nv_netlink, value)": 4, "NV_MAX_WRITE": cm.MaxWrite, "sizeof(struct nv_route)": cm.RouteSize,
		"sizeof(struct nv_mad)": madSize, "offsetof(struct nv_mad, count)": 8, "offsetof(struct nv_mad, request)": 16, "offsetof(struct nv_mad, unreadable)": 20, "offsetof(struct nv_mad, bytes)": 24,
		"sizeof(struct nv_write)": writeSize, "offsetof(struct nv_write, bytes)": 8, "offsetof(struct nv_write, results)": 12,
		"sizeof(struct nv_got)": gotSize, "offsetof(struct nv_got, error)": 4, "offsetof(struct nv_got, length)": 8,
		"sizeof(struct nv_header)": headerSize, "offsetof(struct nv_header, op)": 0, "offsetof(struct nv_header, flags)": 2,
		"offsetof(struct nv_header, error)": 4, "offsetof(struct nv_header, length)": 8, "offsetof(struct nv_header, tag)": 12,
		"offsetof(struct nv_header, context)": 16,
		"sizeof(struct nv_hello)":             helloSize, "offsetof(struct nv_hello, major)": 4, "offsetof(struct nv_hello, wants)": 8,
		"offsetof(struct nv_hello, guard)": 16, "offsetof(struct nv_hello, cookie)": 24,
		"sizeof(struct nv_welcome)": 8, "offsetof(struct nv_welcome, devices)": 4,
		"sizeof(struct nv_open)": openSize, "sizeof(struct nv_opened)": 16, "offsetof(struct nv_opened, rdev_major)": 8,
		"offsetof(struct nv_opened, rdev_minor)": 12,
		"sizeof(struct nv_addresses)":            addressesSize, "offsetof(struct nv_addresses, count)": 8,
		"sizeof(struct nv_address)": addressSize, "offsetof(struct nv_address, ifname)": gidSize,
		"sizeof(((struct nv_address *)0)->ifname)": maxIfname, "offsetof(struct nv_address, ifindex)": 32,
		"offsetof(struct nv_address, prefix)": 36, "sizeof(struct nv_network)": networkSize,
		"sizeof(struct nv_ioctl)": ioctlSize, "offsetof(struct nv_ioctl, results)": 8, "offsetof(struct nv_ioctl, bytes)": 12,
		"sizeof(struct nv_out)": outSize, "offsetof(struct nv_out, kind)": 2, "offsetof(struct nv_out, length)": 4, "offsetof(struct nv_out, value)": 8,
		"sizeof(struct nv_need)": needSize, "offsetof(struct nv_need, kind)": 2, "offsetof(struct nv_need, addr)": 8,
		"offsetof(struct nv_need, length)": 16, "offsetof(struct nv_need, offset)": 24,
		"sizeof(struct nv_result)": resultSize, "offsetof(struct nv_result, kind)": 2, "offsetof(struct nv_result, error)": 4,
		"offsetof(struct nv_result, addr)": 8,
		"sizeof(struct nv_mmap)":           mmapSize, "offsetof(struct nv_mmap, length)": 8, "offsetof(struct nv_mmap, offset)": 16,
		"offsetof(struct nv_mmap, prot)": 24, "offsetof(struct nv_mmap, flags)": 28, "offsetof(struct nv_mmap, room)": mmapSizeOld,
		"sizeof(struct nv_mapped)": mappedSize, "offsetof(struct nv_mapped, whole)": 8,
		"sizeof(struct nv_look)": lookSize, "NV_LOOK": int(opLook), "NV_WAKE": int(opWake), "NV_ASLEEP": control.StatusAsleep, "NV_NAPS == 1ull << 63": control.StatusNaps >> 63, "NV_STATUS_BYTES": control.StatusSize, "NV_AT_PCI": atPCI, "NV_AT_NETDEV": atNetdev,
		"offsetof(struct nv_mapped, given)": 16, "offsetof(struct nv_mapped, alike)": 24, "NV_GONE": registersGone,
	}
	header, err := filepath.Abs("shim/wire.h")
	require.NoError(t, err)
	var c strings.Builder
	c.WriteString("#include <stddef.h>\n#include \"" + header + "\"\n")
	for name, v := range want {
		c.WriteString("_Static_assert((long)(" + name + ") == " + itoa(v) + ", \"" + strings.ReplaceAll(name, "\"", "") + " is not " + itoa(v) + "\");\n")
	}
	src := filepath.Join(t.TempDir(), "same.c")
	require.NoError(t, os.WriteFile(src, []byte(c.String()), 0o600))
	out, err := exec.Command(cc, "-std=c11", "-fsyntax-only", src).CombinedOutput()
	require.NoError(t, err, "%s", out)
}

// Needs, outs and headers have the sizes that the constants say.
func TestWireRows(t *testing.T) {
	n := wireNeed{attr: 1, kind: needRemap, addr: 2, length: 3, offset: 4}
	require.Len(t, n.append(nil), needSize)
	o := wireOut{attr: 1, kind: outBytes, value: 2, bytes: []byte{1, 2, 3}}
	require.Len(t, o.append(nil), outSize+8)
	require.Len(t, appendAnswer(nil, wireHeader{}, 0, 0), headerSize)
}
