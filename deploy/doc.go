// Package deploy has manifests with which a Kubernetes cluster offers RDMA devices made of software to pods.
// The test of this package reads them as Kubernetes does, and compares them with the plugin's names.
package deploy
