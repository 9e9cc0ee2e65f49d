package lab

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A program comes with the libraries that it needs, and with the loader.
func TestProgram(t *testing.T) {
	f := Files{}
	path, err := f.Program("ls")
	require.NoError(t, err)
	require.Contains(t, f, path)
	require.EqualValues(t, 0o755, f[path].Mode.Perm())
	all := ""
	for name, file := range f {
		require.True(t, bytes.HasPrefix(file.Data, []byte("\x7fELF")), name)
		all += filepath.Base(name) + "\n"
	}
	require.Contains(t, all, "libc.so")
	require.Contains(t, all, "ld-linux")
	_, err = f.Program("no-such-program")
	require.ErrorContains(t, err, "no-such-program")
}

// Each module comes behind those that it needs, once; what is built in does not come.
func TestModules(t *testing.T) {
	k := Kernel{Modules: t.TempDir()}
	write := func(name string, data []byte) {
		path := filepath.Join(k.Modules, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, data, 0o644))
	}
	write("modules.builtin", []byte("kernel/lib/crc32.ko\n"))
	write("kernel/net/top.ko", moduleFile("license=GPL\x00depends=left-side,right\x00name=top\x00"))
	write("kernel/net/left-side.ko", moduleFile("depends=base\x00"))
	write("kernel/net/right.ko", moduleFile("depends=base,crc32\x00"))
	write("kernel/base.ko", moduleFile("depends=\x00"))
	write("kernel/lost.ko", moduleFile("depends=nowhere\x00"))
	write("kernel/text.ko", []byte("text"))

	f := Files{}
	require.NoError(t, f.Load(k, "top", "base", "crc32"))
	require.Equal(t, "base left_side right top", strings.Join(strings.Fields(string(f["/modules/order"].Data)), " "))
	require.Len(t, f, 5)
	require.ErrorContains(t, f.Load(k, "lost"), "lost: needs module nowhere")
	require.ErrorContains(t, f.Load(k, "absent"), "absent")
	require.ErrorContains(t, f.Load(k, "text"), "text.ko")
}

// moduleFile returns an ELF file with a section .modinfo.
func moduleFile(info string) []byte {
	const names = "\x00.modinfo\x00.shstrtab\x00"
	const head, section = 64, 64
	at := uint64(head + len(info) + len(names))
	var b bytes.Buffer
	for _, part := range []any{
		elf.Header64{Ident: [16]byte{0x7f, 'E', 'L', 'F', byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)},
			Type: uint16(elf.ET_REL), Machine: uint16(elf.EM_X86_64), Version: uint32(elf.EV_CURRENT), Shoff: at, Ehsize: head, Shentsize: section, Shnum: 3, Shstrndx: 2},
		[]byte(info), []byte(names),
		elf.Section64{},
		elf.Section64{Name: 1, Type: uint32(elf.SHT_PROGBITS), Off: head, Size: uint64(len(info))},
		elf.Section64{Name: 10, Type: uint32(elf.SHT_STRTAB), Off: head + uint64(len(info)), Size: uint64(len(names))},
	} {
		if err := binary.Write(&b, binary.LittleEndian, part); err != nil {
			panic(err)
		}
	}
	return b.Bytes()
}

// The bytes of a kernel are where its header says; a header that lies is an error.
func TestPayload(t *testing.T) {
	image := make([]byte, 2*512+100+20)
	image[0x1f1] = 1
	copy(image[0x202:], "HdrS")
	binary.LittleEndian.PutUint32(image[0x248:], 100)
	binary.LittleEndian.PutUint32(image[0x24c:], 20)
	copy(image[2*512+100:], "the compressed k")
	payload, err := payloadOf(image)
	require.NoError(t, err)
	require.Equal(t, "the compressed k", string(payload))
	for name, spoil := range map[string]func(b []byte){
		"no magic": func(b []byte) { b[0x202] = 0 },
		"too long": func(b []byte) { b[0x24c]++ },
		"too far":  func(b []byte) { b[0x24b] = 0xff },
		"empty":    func(b []byte) { b[0x24c] = 3 },
	} {
		bad := bytes.Clone(image)
		spoil(bad)
		_, err := payloadOf(bad)
		require.Error(t, err, name)
	}
	_, err = payloadOf(nil)
	require.Error(t, err)
}
