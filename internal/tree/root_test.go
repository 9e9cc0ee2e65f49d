package tree

import "testing"

// atRoot lets a test run in the root of the tree. It is no matter for TestMain: go test, which takes a result
// from its cache if no file has changed that the test has read, does not see in what folder TestMain has
// gone.
func atRoot(t *testing.T) {
	t.Helper()
	t.Chdir("../..")
}
