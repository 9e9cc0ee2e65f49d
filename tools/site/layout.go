package main

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"html/template"
	"maps"
	"path"
	"slices"
	"strings"
)

//go:embed parts/layout.html
var layoutText string

//go:embed parts/style.css
var style string

var layout = template.Must(template.New("layout").Parse(layoutText))

// A group of pages has a heading in the navigation.
type group struct {
	Name  string
	Pages []entry
}

// An entry of the navigation, or of the list of headings of a page. To is relative to the page.
type entry struct {
	Title, To string
	Here      bool
}

// A frame is what is shown around the HTML of a page.
type frame struct {
	Title    string
	Root     string // "../" for each folder
	Policy   string
	Style    template.HTML
	Body     template.HTML
	Groups   []group
	Headings []entry
}

// layOut makes the files of all pages.
func (s *site) layOut() error {
	groups, err := s.groups()
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(s.pages)) {
		p := s.pages[name]
		if err := s.frame(address(s.tree, name), p, groups, ""); err != nil {
			return err
		}
	}
	body, script, err := s.search()
	if err != nil {
		return err
	}
	return s.frame("search.html", &page{title: "Search", html: body}, groups, script)
}

// frame makes the file of a page. A script that is not empty is the only one that may run in it.
func (s *site) frame(file string, p *page, groups []group, script string) error {
	f := frame{Title: p.title, Root: strings.Repeat("../", strings.Count(file, "/")), Policy: policy(script),
		Style: template.HTML("<style>" + style + "</style>"), Body: template.HTML(p.html)}
	for _, g := range groups {
		list := slices.Clone(g.Pages)
		for i := range list {
			list[i].Here = list[i].To == file
			list[i].To = from(file, list[i].To)
		}
		f.Groups = append(f.Groups, group{g.Name, list})
	}
	for i := range p.sections {
		if h := &p.sections[i]; h.level == 2 {
			f.Headings = append(f.Headings, entry{Title: h.heading, To: "#" + h.anchor})
		}
	}
	var out bytes.Buffer
	err := layout.Execute(&out, f)
	s.files[file] = out.Bytes()
	return err
}

// policy returns the content security policy of a page: its style, pictures of the site, and a script. To
// some browsers, files that are opened from file:// are not 'self'.
func policy(script string) string {
	p := "default-src 'none'; img-src 'self' file:; style-src " + hash(style)
	if script != "" {
		p += "; script-src " + hash(script)
	}
	return p + "; base-uri 'none'; form-action 'self' file:"
}

func hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

// groups returns the navigation, with addresses of the site: the guide in its own order, other pages of docs
// by their titles.
func (s *site) groups() ([]group, error) {
	guide := group{Name: "Guide"}
	seen := map[string]bool{}
	const contents = "docs/guide/README.md"
	for _, name := range append([]string{"README.md", contents}, s.linksOf(contents)...) {
		if p := s.pages[name]; p != nil && !seen[name] && isPage(name) {
			seen[name] = true
			guide.Pages = append(guide.Pages, entry{Title: p.title, To: address(s.tree, name)})
		}
	}
	manual, reference, project := group{Name: "Manual"}, group{Name: "Reference"}, group{Name: "Project"}
	for name, p := range s.pages {
		e := entry{Title: p.title, To: address(s.tree, name)}
		dir := path.Dir(name)
		switch {
		case seen[name] || !isPage(name):
		case dir == "docs":
			manual.Pages = append(manual.Pages, e)
		case dir == "docs/reference":
			reference.Pages = append(reference.Pages, e)
		case dir == "." || name == "tools/README.md":
			project.Pages = append(project.Pages, e)
		}
	}
	if s.pages["docs/design"] != nil {
		project.Pages = append(project.Pages, entry{Title: "Decisions", To: "docs/design/index.html"})
	}
	groups := []group{guide, manual, reference, project}
	for _, g := range groups[1:] {
		slices.SortFunc(g.Pages, func(a, b entry) int {
			return strings.Compare(strings.ToLower(a.Title), strings.ToLower(b.Title))
		})
	}
	return groups, nil
}

func (s *site) linksOf(name string) []string {
	if p := s.pages[name]; p != nil {
		return p.links
	}
	return nil
}
