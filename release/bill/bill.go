// Package bill says of which modules a command of Go consists: a bill of materials (SBOM) in CycloneDX's
// form, and the licences. Both follow from what the linker wrote into the command (debug/buildinfo), so
// they name the modules that are in it, and no others.
package bill

import (
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/CycloneDX/cyclonedx-go"
)

// own is the beginning of the paths of this tree's modules.
const own = "github.com/nicless/nicless"

// Write writes the bill of materials of the command in a file, as JSON. The same command and time give
// the same bytes.
func Write(w io.Writer, command string, version string, at time.Time) error {
	info, err := buildinfo.ReadFile(command)
	if err != nil {
		return err
	}
	bytes, err := os.ReadFile(command)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(bytes)
	bom := cyclonedx.NewBOM()
	bom.SerialNumber = serialNumber(sum)
	whole := component(debug.Module{Path: own, Version: version}, cyclonedx.ComponentTypeApplication)
	whole.Hashes = &[]cyclonedx.Hash{{Algorithm: cyclonedx.HashAlgoSHA256, Value: hex.EncodeToString(sum[:])}}
	whole.Licenses = &cyclonedx.Licenses{{License: &cyclonedx.License{ID: "Apache-2.0"}}}
	bom.Metadata = &cyclonedx.Metadata{Timestamp: at.UTC().Format(time.RFC3339), Component: &whole}

	stdlib := debug.Module{Path: "stdlib", Version: strings.TrimPrefix(info.GoVersion, "go")}
	var list []cyclonedx.Component
	var uses []string
	for _, m := range append([]debug.Module{stdlib}, modules(info)...) {
		c := component(m, cyclonedx.ComponentTypeLibrary)
		list, uses = append(list, c), append(uses, c.BOMRef)
	}
	bom.Components = &list
	bom.Dependencies = &[]cyclonedx.Dependency{{Ref: whole.BOMRef, Dependencies: &uses}}
	e := cyclonedx.NewBOMEncoder(w, cyclonedx.BOMFileFormatJSON)
	return e.SetPretty(true).SetEscapeHTML(false).Encode(bom)
}

// modules returns the modules of others in a command, sorted by their paths.
func modules(info *debug.BuildInfo) (list []debug.Module) {
	for _, m := range info.Deps {
		if m.Path == own || strings.HasPrefix(m.Path, own+"/") {
			continue
		}
		if m.Replace != nil {
			m = m.Replace
		}
		list = append(list, *m)
	}
	slices.SortFunc(list, func(a, b debug.Module) int { return strings.Compare(a.Path, b.Path) })
	return list
}

// component describes a module. Its checksum is that of go.sum, over names and hashes of its files. That
// is none of CycloneDX's hashes, which are of one file.
func component(m debug.Module, kind cyclonedx.ComponentType) cyclonedx.Component {
	url := "pkg:golang/" + m.Path + "@" + strings.ReplaceAll(m.Version, "+", "%2B")
	c := cyclonedx.Component{BOMRef: url, Type: kind, Name: m.Path, Version: m.Version, PackageURL: url}
	if m.Sum != "" {
		c.Properties = &[]cyclonedx.Property{{Name: "go:sum", Value: m.Sum}}
	}
	return c
}

// serialNumber makes a UUID from a hash: version 8, which RFC 9562 has for numbers of one's own kind.
func serialNumber(sum [sha256.Size]byte) string {
	b := sum[:16]
	b[6], b[8] = b[6]&0x0f|0x80, b[8]&0x3f|0x80
	return fmt.Sprintf("urn:uuid:%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
