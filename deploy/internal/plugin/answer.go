//go:build linux && (amd64 || arm64)

package plugin

import (
	"maps"
	"path"
	"slices"

	"github.com/nicless/nicless/deploy/internal/engines"
	api "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
	"tags.cncf.io/container-device-interface/pkg/parser"
)

// Where a container finds its device.
const (
	Sockets   = "/run/nicless"
	Libraries = "/usr/lib/nicless"
)

// environment returns the variables of a container's programs, which are those that nicless run sets.
func environment() map[string]string {
	return map[string]string{
		"LD_PRELOAD":    path.Join(Libraries, engines.LibraryName),
		"NICLESS_VERBS": path.Join(Sockets, engines.SocketDirectory),
		// Programs with AddressSanitizer do not start if another library comes before the sanitizer's.
		"ASAN_OPTIONS": "verify_asan_link_order=0",
	}
}

// names returns the names of variables, sorted.
func names(env map[string]string) []string { return slices.Sorted(maps.Keys(env)) }

// A mount is a directory of the node in a container, read-only: connecting to a socket writes nothing.
type mount struct{ container, host string }

// mounts returns what a container has mounted whose devices have this lead.
func mounts(p *engines.Pool, lead string) ([]mount, error) {
	sockets, err := p.Directory(lead)
	return []mount{{Sockets, sockets}, {Libraries, p.Libraries()}}, err
}

// answer returns what the kubelet gives to a container whose devices have this lead. The kubelet, or the
// container runtime, may be too old for CDI, so the same is there twice; a runtime that applies both replaces
// mounts and variables by equal ones.
func (s *server) answer(lead string) (*api.ContainerAllocateResponse, error) {
	list, err := mounts(s.cfg.Pool, lead)
	if err != nil {
		return nil, err
	}
	a := &api.ContainerAllocateResponse{Envs: environment()}
	for _, m := range list {
		a.Mounts = append(a.Mounts, &api.Mount{ContainerPath: m.container, HostPath: m.host, ReadOnly: true})
	}
	if s.cfg.CDI != "" {
		vendor, class := parser.ParseQualifier(s.cfg.Resource)
		a.CdiDevices = []*api.CDIDevice{{Name: parser.QualifiedName(vendor, class, lead)}}
	}
	return a, nil
}
