// Package apitest has the tests of package nicless that use it as other programs do. Tests that look into the
// package are beside it, and so are its examples.
package apitest
