// Package process reads and writes memory of another process that the device has not mapped, as long as
// the process is the one that it was when its client named it.
package process
