//go:build linux && (amd64 || arm64)

package deploy

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nicless/nicless/deploy/internal/plugin"
	"github.com/stretchr/testify/require"
	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	api "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
	"sigs.k8s.io/yaml"
)

// read decodes a manifest. A field that Kubernetes does not know is an error.
func read[T any](t *testing.T, file string) (object T) {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NoError(t, yaml.UnmarshalStrict(text, &object), file)
	return object
}

// The node's directories are where the plugin looks for them, under the same paths as on the node: containers
// get these paths mounted.
func TestDaemonSet(t *testing.T) {
	d := read[apps.DaemonSet](t, "daemonset.yaml")
	require.Equal(t, "apps/v1", d.APIVersion)
	require.Equal(t, "DaemonSet", d.Kind)
	require.Equal(t, d.Spec.Selector.MatchLabels, d.Spec.Template.Labels)
	pod := d.Spec.Template.Spec
	require.True(t, pod.HostPID)
	require.False(t, *pod.AutomountServiceAccountToken)
	require.Len(t, pod.Containers, 1)
	c := pod.Containers[0]
	paths := make(map[string]string)
	for _, v := range pod.Volumes {
		if v.HostPath != nil {
			paths[v.Name] = v.HostPath.Path
		}
	}
	var mounted []string
	for _, m := range c.VolumeMounts {
		if paths[m.Name] != "" {
			require.Equal(t, paths[m.Name], m.MountPath, m.Name)
			mounted = append(mounted, m.MountPath)
		}
		require.False(t, m.ReadOnly)
	}
	require.ElementsMatch(t, []string{filepath.Clean(api.DevicePluginPath), plugin.Directory, plugin.CDIDirectory}, mounted)
	require.Equal(t, []core.Capability{"ALL"}, c.SecurityContext.Capabilities.Drop)
	require.Equal(t, []core.Capability{"SYS_PTRACE"}, c.SecurityContext.Capabilities.Add)
	require.Nil(t, c.SecurityContext.Privileged)
	require.Empty(t, c.Resources.Limits, "engines work for other pods")
}

// The example asks for the resource by the plugin's name, and in an amount that a container can have.
func TestExample(t *testing.T) {
	p := read[core.Pod](t, "pod.yaml")
	require.Equal(t, "v1", p.APIVersion)
	require.Equal(t, "Pod", p.Kind)
	require.Len(t, p.Spec.Containers, 1)
	amount, ok := p.Spec.Containers[0].Resources.Limits[plugin.Resource]
	require.True(t, ok)
	require.Equal(t, int64(1), amount.Value())
}

// kustomization is all that the file uses.
type kustomization struct {
	APIVersion string   `json:"apiVersion"`
	Kind       string   `json:"kind"`
	Resources  []string `json:"resources"`
	Images     []struct {
		Name   string `json:"name"`
		NewTag string `json:"newTag"`
	} `json:"images"`
}

// The kustomization has all manifests but the example, in the namespace that they make, and sets the image to
// the version of this tree.
func TestKustomization(t *testing.T) {
	k := read[kustomization](t, "kustomization.yaml")
	files, err := filepath.Glob("*.yaml")
	require.NoError(t, err)
	files = slices.DeleteFunc(files, func(f string) bool { return f == "kustomization.yaml" || f == "pod.yaml" })
	require.ElementsMatch(t, files, k.Resources)
	n := read[core.Namespace](t, "namespace.yaml")
	d := read[apps.DaemonSet](t, "daemonset.yaml")
	require.Equal(t, n.Name, d.Namespace)
	require.Equal(t, "privileged", n.Labels["pod-security.kubernetes.io/enforce"])
	require.Len(t, k.Images, 1)
	require.Equal(t, d.Spec.Template.Spec.Containers[0].Image, k.Images[0].Name)
	module, err := os.ReadFile("go.mod")
	require.NoError(t, err)
	require.Contains(t, string(module), "github.com/nicless/nicless "+k.Images[0].NewTag+"\n")
	dockerfile, err := os.ReadFile("Dockerfile")
	require.NoError(t, err)
	require.True(t, strings.Contains(string(dockerfile), " "+k.Images[0].Name+":"+k.Images[0].NewTag+" "))
}
