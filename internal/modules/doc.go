// Package modules has no code. The tree has several Go modules (go.work), and `go test ./...` at the root
// matches the packages of the library only. The test of this package runs the tests of the others, so
// that command runs all tests.
package modules
