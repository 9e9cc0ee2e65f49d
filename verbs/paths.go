//go:build linux && (amd64 || arm64)

package verbs

import (
	"slices"
	"sync"

	"github.com/nicless/nicless/internal/nic"
)

// A RoCE port has a limited number of paths, so users are charged for those that they hold. Any
// number of a user's objects can hold one path, which is charged once.

// A pathUse is one path that a user holds.
type pathUse struct {
	uid         uint32
	to          RemotePort
	class, hops uint8
}

// pathUses counts the objects that hold each path.
type pathUses struct {
	mu     sync.Mutex
	counts map[pathUse]int // each key is charged to its user
}

const (
	defaultHops = 64 // the hop limit of paths to addresses with hop limit 0
	ecnBits     = 3  // in a traffic class: the link sets them
)

// pathsOf returns the paths that a link makes for an address: a path with another class or hop limit
// than the default ones needs the default path too, on which answers come.
func pathsOf(uid uint32, to RemotePort, class, hops uint8) []pathUse {
	if hops == 0 {
		hops = defaultHops
	}
	list := []pathUse{{uid, to, 0, defaultHops}}
	if own := (pathUse{uid, to, class &^ ecnBits, hops}); own != list[0] {
		list = append(list, own)
	}
	return list
}

// path returns the path to a port elsewhere, holds it and charges it to a user, until release is
// called. The error says why there is no path, or why the user may not hold one more: then it is a
// *control.Error.
func (s *Server) path(who nic.User, to RemotePort, class, hops uint8) (path nic.Path, release func(),
	err error) {
	list := pathsOf(who.UID, to, class, hops)
	if err := s.chargePaths(list); err != nil {
		return path, nil, err
	}
	path, free, err := s.fabric.Path(to, class, hops, who)
	if err != nil {
		s.refundPaths(list)
		return path, nil, err
	}
	return path, func() { free(); s.refundPaths(list) }, nil
}

// chargePaths counts one more object that holds the paths of a list, or none of them if there is an
// error.
func (s *Server) chargePaths(list []pathUse) error {
	u := &s.paths
	u.mu.Lock()
	defer u.mu.Unlock()
	fresh := slices.DeleteFunc(slices.Clone(list), func(p pathUse) bool { return u.counts[p] > 0 })
	if len(fresh) > 0 {
		if err := s.engine.Charge(fresh[0].uid, nic.Cost{Paths: len(fresh)}); err != nil {
			return err
		}
	}
	if u.counts == nil {
		u.counts = make(map[pathUse]int)
	}
	for _, p := range list {
		u.counts[p]++
	}
	return nil
}

// refundPaths counts one object less.
func (s *Server) refundPaths(list []pathUse) {
	u := &s.paths
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, p := range list {
		u.counts[p]--
		if u.counts[p] == 0 {
			delete(u.counts, p)
			s.engine.Refund(p.uid, nic.Cost{Paths: 1})
		}
	}
}
