// Package report prints what packages paste and known find, as text for people and as JSON.
//
// [Decode] reads pasted text and prints each object and error: its fields, what is suspicious,
// what syndrome and vendor byte are known to mean, and probable causes in order. [Page] prints
// what is known about words. nicless decode, nicless explain and the page of tools/decodepage
// use both.
//
// The output has no byte of the input that could change a terminal. It is at most 80 columns
// wide, except for fields of objects.
//
//   - decode.go: a stream; repetitions are counted
//   - failure.go: one failure in words
//   - root.go: the failure of which a flush is a consequence
//   - page.go: words
//   - json.go: the same for programs
package report
