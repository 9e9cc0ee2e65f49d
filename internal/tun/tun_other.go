//go:build !linux || (!amd64 && !arm64)

package tun

import "github.com/nicless/nicless/internal/platform"

var errSystem = platform.Unsupported("a TUN interface")

// A Device is a program's end of a TUN interface. On this system there is none.
type Device struct{}

// Open returns an error: on this system there are no TUN interfaces of Linux.
func Open(c Config) (*Device, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	return nil, errSystem
}

// UserNamespaces returns an error: this system has none.
func UserNamespaces() error { return errSystem }

func (d *Device) Name() string                  { return "" }
func (d *Device) Offloads() Offloads            { return 0 }
func (d *Device) Read(b []byte) (int, error)    { return 0, errSystem }
func (d *Device) Write(head, rest []byte) error { return errSystem }
func (d *Device) Counters() (Counters, error)   { return Counters{}, errSystem }
func (d *Device) Close() error                  { return errSystem }
