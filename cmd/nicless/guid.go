//go:build linux && (amd64 || arm64)

package main

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/nicless/nicless/engine"
	"golang.org/x/sys/unix"
)

// The GUID of an engine that this command runs stays the same from start to start: it is a hash of the
// machine, the user, the user's directory and an index. The index is the least one whose GUID no running
// engine of the user has, so of engines that run at once, the one that started first has the first GUID.
//
// An engine has a GUID while it holds the lock of a file in the user's directory, which the kernel releases
// when the engine ends, however it ends. The files stay, because a file that another engine has just
// opened could not be removed without a race.

// mostIndexes is for how many engines of one user at one time there are GUIDs that stay.
const mostIndexes = 256

// A claim is GUIDs that no other engine of this user has until they are released.
type claim struct {
	first uint64
	files []*os.File
}

// release lets other engines have the GUIDs.
func (c *claim) release() {
	for _, f := range c.files {
		_ = f.Close()
	}
}

// errTaken says that another engine has a GUID.
var errTaken = errors.New("another engine of yours has it")

// claimGUIDs claims n successive GUIDs from first on, with lock files in a directory.
func claimGUIDs(dir string, first uint64, n int) (*claim, error) {
	c := &claim{first: first}
	for i := range uint64(n) {
		path := filepath.Join(dir, fmt.Sprintf("guid-%016x", first+i))
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			c.release()
			return nil, err
		}
		c.files = append(c.files, f)
		if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
			c.release()
			if errors.Is(err, unix.EWOULDBLOCK) {
				err = fmt.Errorf("GUID %016x: %w", first+i, errTaken)
			}
			return nil, err
		}
	}
	return c, nil
}

// parseGUID parses a GUID as --guid takes it: 16 hexadecimal digits, or in groups with : or - between.
func parseGUID(command, s string, devices int) (uint64, error) {
	hint := "16 hexadecimal digits, such as 0200:5eff:fe00:0001, of one device: the first byte is even"
	plain := strings.NewReplacer(":", "", "-", "").Replace(strings.TrimPrefix(s, "0x"))
	guid, err := strconv.ParseUint(plain, 16, 64)
	if err != nil || len(plain) != 16 {
		return 0, usagef(hint, "%s: --guid %q is not a GUID", command, s)
	}
	if err := engine.CheckGUID(guid, devices); err != nil {
		return 0, usagef(hint, "%s: --guid %s: %v", command, s, err)
	}
	return guid, nil
}

// A machine is what GUIDs that stay depend on.
type machine struct {
	id   string // of /etc/machine-id; "": there is none
	host string // name of a host that shares the id with others, such as a container; "": of none
	uid  int
	dir  string // the user's directory; a user can have several
}

// initialUTS is the inode of the first UTS namespace (PROC_UTS_INIT_INO in Linux's proc_ns.h). Others, those
// of containers, may share the machine's id, but have names of their own.
const initialUTS = 0xeffffffe

// thisMachine returns the machine and user that this process belongs to.
func thisMachine(dir string) machine {
	m := machine{uid: os.Getuid(), dir: dir}
	text, _ := os.ReadFile("/etc/machine-id")
	if id := strings.TrimSpace(string(text)); len(id) == 32 { // otherwise it is empty, or "uninitialized"
		m.id = id
	}
	var st unix.Stat_t
	if unix.Stat("/proc/self/ns/uts", &st) != nil || st.Ino != initialUTS {
		m.host, _ = os.Hostname()
	}
	return m
}

// guid returns the GUID of an index: an EUI-64 that is administered locally. The machine's id is the key of
// the hash, as machine-id(5) asks, so nobody learns it from the GUID.
func (m machine) guid(index int) uint64 {
	h := hmac.New(sha256.New, []byte(m.id))
	fmt.Fprintf(h, "nicless GUID\x00%s\x00%d\x00%s\x00%d", m.host, m.uid, m.dir, index)
	const group, local = 1 << 56, 2 << 56
	return binary.BigEndian.Uint64(h.Sum(nil))&^group | local
}

// claimGUID claims the GUIDs of an engine: those that --guid names, or else the user's first ones that are
// free. Without a machine id, or without a directory for locks, it returns nil and no error: the engine then
// has a GUID by chance.
func claimGUID(set string, devices int, warnings io.Writer) (*claim, error) {
	var guid uint64
	if set != "" {
		var err error
		if guid, err = parseGUID("engine", set, devices); err != nil {
			return nil, err
		}
	}
	dir, err := userDirectory()
	switch {
	case err != nil && set != "":
		return nil, err
	case err != nil:
		fmt.Fprintf(warnings, "nicless: warning: the engine's GUID is one by chance: %v\n", err)
		return nil, nil
	case set != "":
		c, err := claimGUIDs(dir, guid, devices)
		if errors.Is(err, errTaken) {
			err = hintf("choose another GUID, or end that engine", "engine: --guid: %w", err)
		}
		return c, err
	}
	m := thisMachine(dir)
	if m.id == "" {
		return nil, nil
	}
	return m.claim(devices)
}

// claim claims the first GUIDs that are free, or nil.
func (m machine) claim(devices int) (*claim, error) {
	for i := range mostIndexes {
		guid := m.guid(i)
		if engine.CheckGUID(guid, devices) != nil {
			continue
		}
		c, err := claimGUIDs(m.dir, guid, devices)
		if !errors.Is(err, errTaken) {
			return c, err
		}
	}
	return nil, nil
}

// checkRunningGUID refuses --guid for an engine that runs with another GUID.
func (f *runFlags) checkRunningGUID(p place) error {
	if f.guid == "" {
		return nil
	}
	asked, err := parseGUID("run", f.guid, f.started())
	if err != nil {
		return err
	}
	names := p.names()
	if len(names) == 0 {
		return nil
	}
	first := names[0] // of the names of devices, which differ in their numbers, that with 0 is the first
	text, _ := os.ReadFile(filepath.Join(p.verbs(), "sys/class/infiniband", first, "node_guid"))
	have := strings.TrimSpace(string(text))
	if guid, err := parseGUID("run", have, 1); err == nil && guid == asked {
		return nil
	}
	return hintf("wait until the programs that use it have ended, or use --private",
		"--guid %s: your engine runs already, with %s", f.guid, have)
}
