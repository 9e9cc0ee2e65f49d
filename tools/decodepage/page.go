package decodepage

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"errors"
	"fmt"
	"html/template"
	"regexp"
)

//go:embed parts/page.html
var pageText string

//go:embed parts/style.css
var style string

//go:embed parts/page.js
var script string

var page = template.Must(template.New("page").Parse(pageText))

// ends are what would end a script, or hide its end, inside an HTML file.
var ends = regexp.MustCompile(`(?i)</script|<script|<!--`)

// Page returns the HTML file. A home that is not empty is the address of a page to which the title leads
// back, relative to this one.
func (d Decoder) Page(home string) ([]byte, error) {
	if !bytes.HasPrefix(d.Module, []byte("\x00asm")) {
		return nil, fmt.Errorf("the decoder has %d bytes, which are no WebAssembly", len(d.Module))
	}
	if ends.Match(d.Support) || ends.MatchString(script) {
		return nil, errors.New("a script contains the end of a script, so it cannot be inside a page")
	}
	packed, err := pack(d.Module)
	if err != nil {
		return nil, err
	}
	support := string(d.Support)
	var out bytes.Buffer
	err = page.Execute(&out, map[string]any{
		"Policy": fmt.Sprintf("default-src 'none'; script-src %s %s 'wasm-unsafe-eval'; style-src %s; "+
			"base-uri 'none'; form-action 'none'", hash(support), hash(script), hash(style)),
		"Home":    home,
		"Style":   template.HTML("<style>" + style + "</style>"),
		"Module":  template.HTML(`<script type="application/wasm+gzip+base64" id="module">` + packed + "</script>"),
		"Support": template.HTML("<script>" + support + "</script>"),
		"Script":  template.HTML("<script>" + script + "</script>"),
	})
	return out.Bytes(), err
}

// hash returns what lets a content security policy accept a script or style inside a page.
func hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

func pack(module []byte) (string, error) {
	var out bytes.Buffer
	z, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		return "", err
	}
	if _, err := z.Write(module); err != nil {
		return "", err
	}
	err = z.Close()
	return base64.StdEncoding.EncodeToString(out.Bytes()), err
}
