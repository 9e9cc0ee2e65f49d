//go:build linux && (amd64 || arm64)

package lab

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
)

// decompress writes the kernel that is in a compressed one. QEMU starts it by its PVH entry. An
// emulated processor takes longer to decompress a kernel than for all else until the first program
// runs. An image that is not compressed by xz, as Debian's kernels are, is copied.
func decompress(image, to string) error {
	data, err := os.ReadFile(image)
	if err != nil {
		return err
	}
	payload, err := payloadOf(data)
	if err != nil {
		return fmt.Errorf("%s: %w", image, err)
	}
	if !bytes.HasPrefix(payload, []byte("\xfd7zXZ\x00")) {
		return os.WriteFile(to, data, 0o644)
	}
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	xz := exec.Command("xz", "-dc")
	xz.Stdin, xz.Stdout = bytes.NewReader(payload), out
	if err = xz.Run(); err != nil {
		err = fmt.Errorf("%s: xz: %w", image, err)
	}
	return errors.Join(err, out.Close())
}

// payloadOf returns the compressed kernel in a bzImage, without the length that is behind it. Source:
// Linux, Documentation/x86/boot.rst: setup_sects, header, payload_offset and payload_length.
func payloadOf(image []byte) ([]byte, error) {
	const sector, sizeAtEnd = 512, 4
	if len(image) < 0x250 || string(image[0x202:0x206]) != "HdrS" {
		return nil, errors.New("not a bzImage")
	}
	start := (uint64(image[0x1f1])+1)*sector + uint64(binary.LittleEndian.Uint32(image[0x248:]))
	length := uint64(binary.LittleEndian.Uint32(image[0x24c:]))
	if length < sizeAtEnd || start+length > uint64(len(image)) {
		return nil, fmt.Errorf("%d bytes at %d are beyond the end of %d", length, start, len(image))
	}
	return image[start:][:length-sizeAtEnd], nil
}
