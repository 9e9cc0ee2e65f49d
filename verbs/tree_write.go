//go:build linux && (amd64 || arm64)

package verbs

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nicless/nicless/internal/nic"
)

// Trees of files. The tree DIR/sys is for programs that have sent no addresses. Every network
// namespace has a tree of its own, DIR/net/NAME/sys, because the GIDs in it are those of the
// namespace. Only files that differ and those of counters are written; the others are links to DIR/sys.
//
// libibverbs recognises a device by its name and the time of its directory, so every file
// and directory of every tree has the same time.

// treeName is the name of a tree. It is in the directory that Serve makes, and in the
// directory of each namespace.
const treeName = "sys"

// netName is the name of the directory with a directory for each namespace. The names of
// these cannot be guessed, and only the server can list them: the addresses of a namespace
// are the business of the programs in it.
const netName = "net"

// nodesName is the name of the directory that programs see as /dev, of all namespaces. It has a
// file for each device, which contains the number of the device.
const nodesName = "dev"

// A netnsTree is the tree of a namespace.
type netnsTree struct {
	mu    sync.Mutex // held while the tree is changed
	name  string     // below the directory that Serve makes; "": there is no tree
	files map[string]string
	ports []nic.PortState // states of the ports when files was made
}

// removeTrees removes all trees of a directory.
func removeTrees(dir string) error {
	var errs []error
	for _, name := range []string{treeName, netName, nodesName} {
		errs = append(errs, os.RemoveAll(filepath.Join(dir, name)))
	}
	return errors.Join(errs...)
}

// writeTrees writes the tree of programs that have sent no addresses.
func (s *Server) writeTrees(dir string) error {
	if err := removeTrees(dir); err != nil {
		return fmt.Errorf("verbs: tree left behind: %w", err)
	}
	s.dir, s.made = dir, time.Now()
	err := os.Mkdir(filepath.Join(dir, netName), 0o711)
	s.nowhere.tree.files = s.files(s.nowhere)
	err = errors.Join(err, s.change("", nil, s.nowhere.tree.files), s.backdate(dir), s.writeNodes())
	if err != nil {
		return fmt.Errorf("verbs: tree: %w", err)
	}
	return nil
}

// files returns the contents of all files of a namespace's tree, by path.
func (s *Server) files(n *netns) map[string]string {
	all := map[string]string{
		"class/infiniband_verbs/abi_version": "6",
		"class/infiniband_mad/abi_version":   "5",
		"class/misc/rdma_cm/abi_version":     "4", // RDMA_USER_CM_ABI_VERSION
		"class/misc/rdma_cm/dev":             fmt.Sprintf("%d:%d", cmMajor, cmMinor),
	}
	for _, d := range s.devices {
		for _, files := range []map[string]string{d.files(n), s.counterFiles(d)} {
			for name, text := range files {
				all[name] = text
			}
		}
	}
	return all
}

// rescan brings the table and the tree of a namespace up to date.
func (s *Server) rescan(n *netns, found []address) error {
	changed := false
	defer func() { // without the tree's lock
		if changed {
			s.notifyGIDs(n)
		}
		s.announce()
	}()
	t := &n.tree
	t.mu.Lock()
	defer t.mu.Unlock()
	before := *n.netdev()
	changed = n.scan(found)
	s.notifyNetdev(n, before)
	if changed {
		s.renewGIDs(n)
	}
	ports := s.portStates()
	if s.dir == "" || (!changed && t.name != "" && slices.Equal(ports, t.ports)) {
		return nil
	}
	t.ports = ports
	files := s.files(n)
	if t.name != "" {
		err := s.change(t.name, t.files, files)
		t.files = files
		return err
	}
	var random [16]byte
	_, _ = rand.Read(random[:])
	name := filepath.Join(netName, hex.EncodeToString(random[:]))
	root := filepath.Join(s.dir, name)
	err := os.Mkdir(root, 0o755)
	if err == nil {
		err = errors.Join(s.change(name, nil, files), s.backdate(root))
	}
	if err != nil {
		_ = os.RemoveAll(root)
		return fmt.Errorf("files of a network namespace: %w", err)
	}
	t.name, t.files = name, files
	return nil
}

// renewPorts brings the trees of all namespaces and the GID tables of a context up to date with the ports.
func (s *Server) renewPorts(x *uctx) {
	s.networks.mu.Lock()
	all := append([]*netns{s.nowhere}, s.networks.all...)
	s.networks.mu.Unlock()
	for _, n := range all {
		if err := s.renewTree(n); err != nil {
			s.report(nic.UnknownUser, nil, slog.LevelWarn, "verbs files of ports not written", "error", err)
		}
	}
	t := &x.net.tree
	t.mu.Lock()
	_ = x.setGIDs() // fails only if the context has ended
	t.mu.Unlock()
	s.announce()
}

// renewTree writes those files of a namespace's tree that have changed.
func (s *Server) renewTree(n *netns) error {
	t := &n.tree
	t.mu.Lock()
	defer t.mu.Unlock()
	if s.dir == "" || (t.name == "" && n != s.nowhere) {
		return nil
	}
	t.ports = s.portStates()
	files := s.files(n)
	err := s.change(t.name, t.files, files)
	t.files = files
	return err
}

// portStates returns the states of the ports of all devices.
func (s *Server) portStates() (all []nic.PortState) {
	for _, d := range s.devices {
		all = append(all, d.state())
	}
	return all
}

// change writes the files in the directory `name` that differ from what is there, and removes
// those that are no more. from is nil if the tree is new; then its links are made too. The caller holds the
// lock of the tree, unless nothing else knows the tree yet.
func (s *Server) change(name string, from, to map[string]string) error {
	root := filepath.Join(s.dir, name, treeName)
	var errs []error
	for path, text := range to {
		if was, ok := from[path]; ok && was == text {
			continue
		}
		at := filepath.Join(root, path)
		err := os.MkdirAll(filepath.Dir(at), 0o755)
		linked := false
		if err == nil && name != "" && from == nil {
			linked, err = s.link(path, text, at)
		}
		if err == nil && !linked {
			err = s.write(at, text)
		}
		errs = append(errs, err)
	}
	if from == nil {
		errs = append(errs, s.writeLinks(root))
	}
	for path := range from {
		if _, ok := to[path]; !ok {
			at := filepath.Join(root, path)
			errs = append(errs, os.Remove(at))
			if filepath.Base(filepath.Dir(filepath.Dir(at))) == "net" {
				_ = os.Remove(filepath.Dir(at)) // the directory of an interface
			}
		}
	}
	return errors.Join(errs...)
}

// link makes a file of a new tree a link to that of DIR/sys, if it has the same text there. It holds the lock
// of DIR/sys meanwhile, so the file has this text; the caller does not hold it. Files of counters are never
// linked: those of DIR/sys are renewed while somebody looks.
func (s *Server) link(path, text, at string) (linked bool, err error) {
	if strings.Contains(path, countersIn) {
		return false, nil
	}
	t := &s.nowhere.tree
	t.mu.Lock()
	defer t.mu.Unlock()
	if original, ok := t.files[path]; !ok || original != text {
		return false, nil
	}
	return true, os.Link(filepath.Join(s.dir, treeName, path), at)
}

// writeLinks makes the symbolic links of a tree, which are the same in all namespaces.
func (s *Server) writeLinks(root string) error {
	var errs []error
	for _, d := range s.devices {
		for path, target := range d.links() {
			at := filepath.Join(root, path)
			errs = append(errs, os.MkdirAll(filepath.Dir(at), 0o755), os.Symlink(target, at))
		}
	}
	return errors.Join(errs...)
}

// writeNodes writes the files that programs see below /dev.
func (s *Server) writeNodes() error {
	root := filepath.Join(s.dir, nodesName, "infiniband")
	err := os.MkdirAll(root, 0o755)
	for _, d := range s.devices {
		for name, minor := range map[string]uint32{"umad": umadMinor, "issm": issmMinor} {
			if name == "issm" && d.lid == 0 {
				continue
			}
			err = errors.Join(err, os.WriteFile(filepath.Join(root, fmt.Sprintf("%s%d", name, d.index)),
				fmt.Appendf(nil, "%d:%d\n", devMajor, minor+d.index), 0o644))
		}
		number := fmt.Appendf(nil, "%d:%d\n", devMajor, devMinor+d.index)
		err = errors.Join(err, os.WriteFile(filepath.Join(root, fmt.Sprintf("uverbs%d", d.index)), number,
			0o644))
	}
	err = errors.Join(err, os.WriteFile(filepath.Join(root, "rdma_cm"),
		fmt.Appendf(nil, "%d:%d\n", cmMajor, cmMinor), 0o644))
	return err
}

// write puts a file in its place at once, so that no program finds half of it, and not into
// a file that other trees have too.
func (s *Server) write(path, text string) error {
	f, err := os.CreateTemp(filepath.Join(s.dir, netName), "new")
	if err != nil {
		return err
	}
	_, err = f.WriteString(text + "\n")
	err = errors.Join(err, f.Chmod(modeOf(path)), f.Close(), os.Chtimes(f.Name(), s.made, s.made))
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}

// backdate gives all files and directories below a directory the time of the trees.
func (s *Server) backdate(dir string) error {
	return filepath.WalkDir(filepath.Join(dir, treeName), func(path string, _ fs.DirEntry, err error) error {
		return errors.Join(err, os.Chtimes(path, s.made, s.made))
	})
}

// removeTree removes the tree of a namespace.
func (s *Server) removeTree(n *netns) {
	t := &n.tree
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.name == "" {
		return
	}
	if err := os.RemoveAll(filepath.Join(s.dir, t.name)); err != nil {
		s.report(nic.UnknownUser, nil, slog.LevelWarn, "verbs files of a network namespace not removed", "error", err)
	}
	t.name = ""
}
