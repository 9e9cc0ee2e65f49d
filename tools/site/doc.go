// Command site makes the pages of this tree into a site for browsers: README.md and all other Markdown, the
// sources that they link to, pictures, a search, and the decoder of package decodepage. A site is a folder of
// files. It needs no server, loads nothing from outside, and works from file:// as well.
//
//	make site                       go run ./tools/site -o site
//
// Paths stay as they are in the tree: docs/VERBS.md becomes docs/VERBS.html, README.md of a folder its
// index.html, and a source FILE.html. So relative links need only another ending.
//
//   - tree.go: which file of the tree becomes which file of the site
//   - markdown.go, anchor.go: a page of Markdown, its headings and links
//   - source.go: sources and folders that pages link to
//   - build.go: all files of a site; layout.go: navigation, and what is around each page
//   - search.go: the index of words, inside the page that searches it
//   - check.go: each link inside the site leads somewhere
//   - parts: HTML, style and script
//
// The same tree and version of Go give the same bytes.
package main
