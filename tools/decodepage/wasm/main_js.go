// Command wasm is the decoder of the page, built for browsers: it gives the page the function niclessAnswer,
// from text to text, and waits for calls for ever.
package main

import (
	"syscall/js"

	"github.com/nicless/nicless/tools/decodepage/answer"
)

func main() {
	js.Global().Set("niclessAnswer", js.FuncOf(func(_ js.Value, args []js.Value) any {
		if len(args) != 1 || args[0].Type() != js.TypeString {
			return "one text is needed\n"
		}
		return answer.To(args[0].String())
	}))
	select {}
}
