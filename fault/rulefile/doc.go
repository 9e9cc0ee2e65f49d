// Package rulefile reads files of rules of faults (package fault) in YAML.
//
// docs/FAULTS.md describes the language. A file has one document, which is a mapping with the fields of
// fault.Rules. JSON is YAML, so a file may be JSON, too. Anchors, aliases and merge keys (<<) are possible;
// tags and unknown fields are not. Numbers may be hexadecimal (0x4d2).
//
// All errors of a file are said at once, each with its line and column. Files are hostile: their size is
// bounded, and so is the number of values that aliases make of them.
//
//   - rulefile.go: Read and Parse; the errors and their places
//   - decode.go: values of YAML become those of fault.Rules, field by field
//   - nodes.go: what aliases and merge keys stand for
//
// schema.json is a JSON Schema for editors. A comment in the first line of a file can name it:
//
//	yaml-language-server: $schema=https://raw.githubusercontent.com/nicless/nicless/main/fault/rulefile/schema.json
package rulefile
