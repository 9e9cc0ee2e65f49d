// Package plugin speaks with the kubelet, by version v1beta1 of its interface for device plugins: it offers
// the devices of a pool (package engines) as a resource, and answers what a container with some of them
// gets. That is two mounts and three variables, the same by the kubelet and by CDI:
//
//	/run/nicless        sockets of the container's own engine, read-only
//	/usr/lib/nicless    the library that programs preload, read-only
//	LD_PRELOAD, NICLESS_VERBS, ASAN_OPTIONS    what `nicless run` sets
package plugin
