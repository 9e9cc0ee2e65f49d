package tree

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/importer"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Everything that a package exports can be read with one go doc command: no exported
// type is an alias of an internal type, and no exported signature, field, constant or
// variable has an internal type.
func TestAPINamesNothingInternal(t *testing.T) {
	atRoot(t)
	packages := publicPackages(t)
	require.Contains(t, packages, module)
	require.Contains(t, packages, module+"/hostpath")
	require.Contains(t, packages, module+"/accel")
	for path, pkg := range packages {
		for _, f := range internalNames(pkg) {
			t.Errorf("%s: %s", path, f)
		}
	}
}

// TestAPINamesNothingInternal detects each kind of internal name.
func TestInternalNamesAreFound(t *testing.T) {
	inner := types.NewPackage(module+"/internal/inner", "inner")
	secret := types.NewNamed(types.NewTypeName(token.NoPos, inner, "Secret", nil), types.Typ[types.Int], nil)
	p := types.NewPackage(module+"/outer", "outer")
	add := func(o types.Object) { p.Scope().Insert(o) }
	field := func(name string, typ types.Type) *types.Var { return types.NewField(token.NoPos, p, name, typ, false) }
	result := types.NewTuple(types.NewVar(token.NoPos, p, "", types.NewSlice(secret)))

	aliased := types.NewTypeName(token.NoPos, p, "Aliased", nil)
	types.NewAlias(aliased, secret)
	add(aliased)
	structure := types.NewTypeName(token.NoPos, p, "Struct", nil)
	named := types.NewNamed(structure, types.NewStruct([]*types.Var{field("Open", types.NewPointer(secret)), field("hidden", secret)}, nil), nil)
	named.AddMethod(types.NewFunc(token.NoPos, p, "Get", types.NewSignatureType(types.NewVar(token.NoPos, p, "", named), nil, nil, nil, result, false)))
	add(structure)
	add(types.NewFunc(token.NoPos, p, "Func", types.NewSignatureType(nil, nil, nil, nil, result, false)))
	add(types.NewVar(token.NoPos, p, "Var", types.NewMap(types.Typ[types.Int], secret)))
	add(types.NewVar(token.NoPos, p, "hidden", secret))
	require.Equal(t, []string{
		"Aliased is inner.Secret", "Func names inner.Secret", "Struct.Get names inner.Secret", "Struct.Open names inner.Secret", "Var names inner.Secret",
	}, internalNames(p))
}

// publicPackages returns the packages that other modules can import.
func publicPackages(t *testing.T) map[string]*types.Package {
	t.Helper()
	out, err := exec.Command("go", "list", "-export", "-deps", "-json=ImportPath,Export,Name,Module", "./...").Output()
	if errors.Is(err, exec.ErrNotFound) {
		t.Skip("there is no go command here")
	}
	require.NoError(t, err)
	exports := make(map[string]string)
	var public []string
	for in := json.NewDecoder(bytes.NewReader(out)); ; {
		var p struct {
			ImportPath, Export, Name string
			Module                   *struct{ Path string }
		}
		if err := in.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else {
			require.NoError(t, err)
		}
		exports[p.ImportPath] = p.Export
		if p.Module != nil && p.Module.Path == module && p.Name != "main" && p.Export != "" && !isInternal(p.ImportPath) && !isFabric(p.ImportPath) {
			public = append(public, p.ImportPath)
		}
	}
	from := importer.ForCompiler(token.NewFileSet(), "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })
	packages := make(map[string]*types.Package)
	for _, path := range public {
		packages[path], err = from.Import(path)
		require.NoError(t, err)
	}
	return packages
}

func isInternal(path string) bool {
	return strings.HasPrefix(path, module) && strings.Contains(path+"/", "/internal/")
}

// isFabric reports whether a package is package fabric or a carrier. They are for the programs
// of this module, which connect them to the ports of an engine, so they name types of
// internal/nic. Other modules get links by the configuration of an engine.
func isFabric(path string) bool { return strings.HasPrefix(path+"/", module+"/fabric/") }

// internalNames returns the exported names of a package that have internal types.
func internalNames(pkg *types.Package) (found []string) {
	for _, name := range pkg.Scope().Names() {
		o := pkg.Scope().Lookup(name)
		// verbs.Fabric is for package fabric/links.
		if !o.Exported() || pkg.Path() == module+"/verbs" && name == "Fabric" {
			continue
		}
		tn, ok := o.(*types.TypeName)
		if !ok {
			found = append(found, internalIn(name+" names ", o.Type())...)
			continue
		}
		if tn.IsAlias() {
			found = append(found, internalIn(name+" is ", types.Unalias(o.Type()))...)
			continue
		}
		methods := types.NewMethodSet(types.NewPointer(o.Type()))
		if types.IsInterface(o.Type()) {
			methods = types.NewMethodSet(o.Type())
		}
		for i := range methods.Len() {
			if m := methods.At(i).Obj(); m.Exported() {
				found = append(found, internalIn(name+"."+m.Name()+" names ", m.Type())...)
			}
		}
		if s, ok := o.Type().Underlying().(*types.Struct); ok {
			for f := range s.Fields() {
				if f.Exported() {
					found = append(found, internalIn(name+"."+f.Name()+" names ", f.Type())...)
				}
			}
		} else if !types.IsInterface(o.Type()) {
			found = append(found, internalIn(name+" is ", o.Type().Underlying())...)
		}
	}
	return found
}

// internalIn returns the internal types that a type consists of.
func internalIn(what string, t types.Type) (found []string) {
	seen := make(map[types.Type]bool)
	var walk func(types.Type)
	walk = func(t types.Type) {
		if t == nil || seen[t] {
			return
		}
		seen[t] = true
		switch t := t.(type) {
		case *types.Alias:
			walk(types.Unalias(t))
		case *types.Named:
			if p := t.Obj().Pkg(); p != nil && isInternal(p.Path()) {
				found = append(found, fmt.Sprintf("%s%s.%s", what, p.Name(), t.Obj().Name()))
			}
			for a := range t.TypeArgs().Types() {
				walk(a)
			}
		case *types.TypeParam:
			walk(t.Constraint())
		case interface{ Elem() types.Type }: // pointers, slices, arrays, channels and maps
			if m, ok := t.(*types.Map); ok {
				walk(m.Key())
			}
			walk(t.Elem())
		case *types.Tuple:
			for v := range t.Variables() {
				walk(v.Type())
			}
		case *types.Signature:
			for p := range t.TypeParams().TypeParams() {
				walk(p)
			}
			walk(t.Params())
			walk(t.Results())
		case *types.Struct:
			for f := range t.Fields() {
				if f.Exported() {
					walk(f.Type())
				}
			}
		case *types.Interface:
			for e := range t.EmbeddedTypes() {
				walk(e)
			}
			for m := range t.ExplicitMethods() {
				walk(m.Type())
			}
		case *types.Union:
			for term := range t.Terms() {
				walk(term.Type())
			}
		}
	}
	walk(t)
	return found
}
