// Package enginetest runs engines in the process of a test, and clients that give them work.
//
// Only tests import this package.
package enginetest
