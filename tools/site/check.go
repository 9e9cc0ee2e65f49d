package main

import (
	"bytes"
	"fmt"
	"maps"
	"net/url"
	"path"
	"slices"
	"strings"

	"golang.org/x/net/html"
)

// refers are the attributes with addresses. Only the addresses of links may be outside the site: everything
// else would be loaded.
var refers = map[string]bool{"href": true, "src": false, "action": false, "srcset": false, "data": false,
	"poster": false, "background": false}

// A reference is an address in a page.
type reference struct {
	from, to string
	isLink   bool
}

// check returns what is wrong with the addresses in the pages of a site, in order, and the addresses outside
// the site, of which only the form is checked.
func check(files map[string][]byte) (wrong []string, outside []string, err error) {
	ids := map[string]map[string]bool{}
	var all []reference
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if path.Ext(name) != ".html" {
			continue
		}
		doc, err := html.Parse(bytes.NewReader(files[name]))
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", name, err)
		}
		ids[name] = map[string]bool{}
		for n := range doc.Descendants() {
			for _, a := range n.Attr {
				isLink, refers := refers[a.Key]
				switch {
				case a.Key == "id" && ids[name][a.Val]:
					wrong = append(wrong, fmt.Sprintf("%s has two elements #%s", name, a.Val))
				case a.Key == "id":
					ids[name][a.Val] = true
				case refers:
					all = append(all, reference{name, a.Val, isLink && n.Data == "a"})
				}
			}
		}
	}
	for _, r := range all {
		u, err := url.Parse(r.to)
		switch {
		case err != nil:
			wrong = append(wrong, fmt.Sprintf("%s: %v", r.from, err))
		case u.Scheme != "" || u.Host != "":
			outside = append(outside, r.to)
			wrong = append(wrong, r.wrongOutside(u)...)
		default:
			wrong = append(wrong, r.wrongInside(u, files, ids)...)
		}
	}
	slices.Sort(outside)
	return wrong, slices.Compact(outside), nil
}

func (r reference) wrongOutside(u *url.URL) []string {
	switch {
	case !r.isLink:
		return []string{fmt.Sprintf("%s loads %s, which is outside the site", r.from, r.to)}
	case u.Scheme != "https" && u.Scheme != "http", !strings.Contains(u.Host, "."):
		return []string{fmt.Sprintf("%s links to %q, which is no address of the web", r.from, r.to)}
	}
	return nil
}

func (r reference) wrongInside(u *url.URL, files map[string][]byte, ids map[string]map[string]bool) []string {
	to := r.from
	if u.Path != "" {
		to = path.Join(path.Dir(r.from), u.Path)
	}
	if _, ok := files[to]; !ok || strings.HasPrefix(u.Path, "/") {
		return []string{fmt.Sprintf("%s leads to %q, which is not in the site", r.from, r.to)}
	}
	if u.Fragment != "" && !ids[to][u.Fragment] {
		return []string{fmt.Sprintf("%s leads to %q; %s has no #%s", r.from, r.to, to, u.Fragment)}
	}
	return nil
}
