//go:build linux && (amd64 || arm64)

package object

// NoPage is the explanation of a fault of memory; its argument is the address.
const NoPage = "memory at %#x of the device's mapping has no page behind it"
