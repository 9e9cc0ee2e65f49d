// Package syntax reads the text of PTX modules, versions 6.0 to 9.x, into a tree. It knows how directives,
// variables, functions, instructions and operands are written, and resolves no names: what an opcode means,
// and which operands it takes, is for the caller.
//
// # Terms
//
// An opcode is a base with modifiers, as in ld.acquire.sys.global.b64. A form is an opcode as it is
// written; all instructions with the same form share one Opcode. A position is a line and a column of the
// PTX text; a source position is what .loc says of the program that was compiled to it.
//
// # Errors
//
// Parse returns an *Error with the position and what was expected there. The first error ends it: what a
// module means after an error would be a guess. Text of strangers may be given: a module has at most
// MaxText bytes, blocks and expressions nest at most maxDepth deep, and nothing of the text decides how
// much is allocated but its length.
//
// # Files, in reading order
//
//	tree.go        what a module consists of
//	lexer.go       words, numbers and punctuation
//	number.go      constants
//	expression.go  constant expressions
//	module.go      directives of a module, and functions
//	variable.go    variables, parameters and their initial values
//	body.go        statements of a function
//	operand.go     operands of an instruction
//
// Source: PTX ISA 9.0, sections 4 (syntax), 5 (state spaces, types, variables), 6 (operands), 7 (ABI), 11
// (directives).
package syntax
