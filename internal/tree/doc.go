// Package tree has tests that read the whole tree: which packages import which, whether documents name what
// exists, and what tests may not use.
package tree
