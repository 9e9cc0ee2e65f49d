// Package web serves `nicless web`: one page that shows an engine live in a browser.
//
// The page's files are in the binary, and it asks nobody but this server. The server asks the engine on the
// sockets that every user of the engine has, so a browser sees what the user of the command may see.
//
// # Who may ask
//
// See guard.go. On the loopback address requests must name this host. On any other one, or if the page may
// change the engine (Options.Control), they must have the token. Requests that change or cost something come
// from the page itself.
//
// # Cost
//
// All streams share one look at the engine (look.go), at most once a second, and more seldom if it takes
// long. Everything that a browser can ask for is bounded: streams, events of a trace, rows, and the size of a
// request. A connection whose request was refused, or that asks nothing, loses its place to a new one
// (package conns). A browser that reads nothing holds its own connection, until a write to it takes too long.
//
// # Files
//
//   - guard.go: which requests are answered, and the headers of answers
//   - server.go: the server and its paths
//   - look.go: the newest snapshot of the engine, with rates
//   - rows.go: which queues a page shows, in which order
//   - stream.go, frame.go: the stream of server-sent events, and one event
//   - ring.go: the ring of a queue, and one entry in words
//   - record.go: a trace of a queue, of some milliseconds
//   - rules.go: rules of faults
//   - page: the page
package web
