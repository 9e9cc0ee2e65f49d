//go:build linux && (amd64 || arm64)

package auth

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"syscall"

	"github.com/flynn/noise"
	"golang.org/x/sys/unix"
)

const (
	privatePrefix = "nicless-private-1"
	publicPrefix  = "nicless-public-1"
	keySize       = 32
	mostKeyFile   = 4096 // bytes; a key file has 63
)

// A PublicKey is the public key of an engine.
type PublicKey [keySize]byte

// String returns the key as the files of peers have it: "nicless-public-1" and base64.
func (k PublicKey) String() string {
	return publicPrefix + " " + base64.StdEncoding.EncodeToString(k[:])
}

// Fingerprint returns 16 hexadecimal digits that stand for the key in logs and reports.
func (k PublicKey) Fingerprint() string {
	sum := sha256.Sum256(k[:])
	return hex.EncodeToString(sum[:8])
}

// ParsePublicKey reads what String returns. The prefix may be missing.
func ParsePublicKey(s string) (k PublicKey, err error) {
	text := strings.Fields(s)
	if len(text) == 2 && text[0] == publicPrefix {
		text = text[1:]
	}
	if len(text) == 1 {
		err = decodeKey(k[:], text[0])
	}
	if len(text) != 1 || err != nil {
		return PublicKey{}, fmt.Errorf("%q is no public key; %s and 44 characters of base64 are needed (nicless key show FILE)", s, publicPrefix)
	}
	return k, nil
}

func decodeKey(to []byte, text string) error {
	b, err := base64.StdEncoding.Strict().DecodeString(text)
	if err == nil && len(b) != keySize {
		err = fmt.Errorf("%d bytes, want %d", len(b), keySize)
	}
	if err != nil {
		return err
	}
	if bytes.Equal(b, make([]byte, keySize)) {
		return errors.New("all bytes are 0")
	}
	copy(to, b)
	return nil
}

// An Identity is the private key of an engine. It is safe for concurrent use.
type Identity struct{ pair noise.DHKey }

// Public returns the public key.
func (i *Identity) Public() PublicKey { return PublicKey(i.pair.Public) }

// NewIdentity makes a private key and writes it to a new file that only the user can read. An error
// wraps fs.ErrExist if the file exists; it is not changed.
func NewIdentity(path string) (*Identity, error) {
	pair, err := suite.GenerateKeypair(rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("auth: make a key: %w", err)
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil, existsError(path)
	}
	if err != nil {
		var named *fs.PathError
		if errors.As(err, &named) {
			err = named.Err
		}
		return nil, fmt.Errorf("auth: make key file %s: %w", path, err)
	}
	_, err = f.WriteString(privatePrefix + " " + base64.StdEncoding.EncodeToString(pair.Private) + "\n")
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return nil, errors.Join(fmt.Errorf("auth: write key file %s: %w", path, err), os.Remove(path))
	}
	return &Identity{pair}, nil
}

// An existsError says that a key file, which has this name, is there already.
type existsError string

func (e existsError) Error() string {
	return fmt.Sprintf("auth: key file %s exists, and is not replaced; name another file, or remove it", string(e))
}

func (e existsError) Unwrap() error { return fs.ErrExist }

// LoadIdentity reads a file that NewIdentity has written. It refuses a file that others than its user
// can read or write, or that belongs to a user other than the process's and root.
func LoadIdentity(path string) (*Identity, error) {
	text, err := readGuarded(path, 0o077, mostKeyFile)
	if err != nil {
		return nil, fmt.Errorf("auth: key file: %w", err)
	}
	words := strings.Fields(string(text))
	if len(words) == 0 || words[0] != privatePrefix || len(words) != 2 {
		return nil, fmt.Errorf("auth: key file %s: no line %q and base64 (nicless key new FILE makes one)", path, privatePrefix)
	}
	private := make([]byte, keySize)
	if err := decodeKey(private, words[1]); err != nil {
		return nil, fmt.Errorf("auth: key file %s: %w", path, err)
	}
	pair, err := suite.GenerateKeypair(bytes.NewReader(private)) // takes the private key from the reader
	if err != nil {
		return nil, fmt.Errorf("auth: key file %s: %w", path, err)
	}
	return &Identity{pair}, nil
}

// readGuarded reads a regular file that belongs to the process's user or to root and has no bit of mode.
func readGuarded(path string, mode os.FileMode, most int64) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0) // a FIFO does not make it wait
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if err := guarded(f, mode); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	b, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(b)) > most {
		err = fmt.Errorf("%s: longer than %d bytes", path, most)
	}
	return b, err
}

// guarded checks the kind, the owner and the mode of a file.
func guarded(f *os.File, mode os.FileMode) error {
	st, err := f.Stat()
	if err != nil {
		return err
	}
	owner := int(st.Sys().(*syscall.Stat_t).Uid)
	switch {
	case !st.Mode().IsRegular():
		return errors.New("no regular file")
	case owner != os.Geteuid() && owner != 0:
		return fmt.Errorf("it belongs to uid %d; uid %d or root is needed", owner, os.Geteuid())
	case st.Mode().Perm()&mode != 0:
		return fmt.Errorf("its mode is %#o; none of the bits %#o may be set (chmod %#o)", st.Mode().Perm(), mode, st.Mode().Perm()&^mode)
	}
	return nil
}
