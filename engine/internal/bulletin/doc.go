// Package bulletin has what the clients of a device and of linked ones announce, and says who may read it and
// who is notified of a change.
//
// A Bulletin is used by requests and links, on goroutines of their own; its methods lock. The device's thread
// only sends the events, to the clients that a method returns.
//
//   - bulletin.go: what a client announces: Post, Leave, Entries
//   - links.go: what links say of other devices; of several links, which one counts
//   - readers.go: what a client reads next, and which clients are notified of a change
//   - history.go: which announcements have changed after which, and what is dropped
//   - users.go: which clients belong to the same user
package bulletin
