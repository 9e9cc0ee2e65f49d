// Package decodepage makes a page for browsers that explains pasted dumps and logs of mlx5 queues, as
// `nicless decode` does, by the same packages. The page is one HTML file: the decoder, built for WebAssembly
// and compressed, is inside, and so are scripts and styles. It loads nothing, also from file://, and its
// content security policy forbids that; what is pasted does not leave it.
//
//	go run ./tools/decodepage/run decode.html
//
// The same version of Go and the same tree give the same bytes.
//
//   - page.go puts the page together, and compile.go builds the decoder.
//   - parts has the page's HTML, style and script.
//   - Package answer is the function from text to text, and wasm the program around it.
package decodepage
