// Package crd makes the resources of a [lwtest.Server] of a project's own
// CustomResourceDefinitions: their defaults, pruning, validation and CEL rules, their lists,
// subresources and versions. The rules are read by the packages that kube-apiserver reads them
// with, within the process and without a goroutine, so they work in a synctest bubble.
package crd

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
	sigsyaml "sigs.k8s.io/yaml"
)

// Load returns the CustomResourceDefinitions in the YAML and JSON files of a folder and of those
// within it, in the order of the names of the files. Documents of other kinds are left out. It
// fails if a file cannot be read, if a server would refuse a definition, and if there is none.
//
// What was read once is kept in the user's cache, since much of the time of a short test would go
// into YAML.
func Load(files fs.FS) ([]*Definition, error) {
	names, contents, err := read(files)
	if err != nil {
		return nil, err
	}
	cache := cacheOf(names, contents)
	if all := cached(cache); all != nil {
		return build(all)
	}
	var all []entry
	for i, name := range names {
		found, err := parse(name, contents[i])
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("simulate: %d files, and none has a CustomResourceDefinition: name the folder that controller-gen writes them to, such as config/crd/bases", len(names))
	}
	out, err := build(all)
	if err != nil {
		return nil, err
	}
	keep(cache, all)
	return out, nil
}

// read returns the names and contents of the files that may have definitions.
func read(files fs.FS) (names []string, contents [][]byte, err error) {
	err = fs.WalkDir(files, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if ext := path.Ext(name); d.IsDir() || ext != ".yaml" && ext != ".yml" && ext != ".json" {
			return nil
		}
		content, err := fs.ReadFile(files, name)
		if err == nil && bytes.Contains(content, []byte("CustomResourceDefinition")) {
			names, contents = append(names, name), append(contents, content)
		}
		return err
	})
	if err != nil {
		return nil, nil, fmt.Errorf("simulate: the CRDs cannot be read: %w", err)
	}
	return names, contents, nil
}

// An entry is one definition, as the cache has it.
type entry struct {
	File string
	CRD  *apiextensionsv1.CustomResourceDefinition
}

// parse returns the definitions of a file.
func parse(name string, content []byte) (all []entry, err error) {
	reader := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(content)))
	for n := 1; ; n++ {
		doc, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, fmt.Errorf("simulate: %s, document %d: %w", name, n, err)
		}
		var head struct{ APIVersion, Kind string }
		data, err := sigsyaml.YAMLToJSON(doc)
		if err == nil {
			err = json.Unmarshal(data, &head)
		}
		if err != nil {
			return nil, fmt.Errorf("simulate: %s, document %d: %w (templates of Helm must be rendered first)", name, n, err)
		}
		if head.Kind != "CustomResourceDefinition" {
			continue
		}
		if head.APIVersion != apiextensionsv1.SchemeGroupVersion.String() {
			return nil, fmt.Errorf("simulate: %s, document %d: a CustomResourceDefinition of %s: no server from 1.22 on takes it; controller-gen makes v1 of it", name, n, head.APIVersion)
		}
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := json.Unmarshal(data, crd); err != nil {
			return nil, fmt.Errorf("simulate: %s, document %d: %w", name, n, err)
		}
		if err := check(crd); err != nil {
			return nil, fmt.Errorf("simulate: %s: CustomResourceDefinition %s: %w: a cluster would refuse it as well; kubectl apply --dry-run=server -f %s says the same", name, crd.Name, err, path.Base(name))
		}
		for i := range crd.Spec.Versions {
			if s := crd.Spec.Versions[i].Schema; s != nil {
				undescribe(s.OpenAPIV3Schema)
			}
		}
		all = append(all, entry{name, crd})
	}
}

// check fills in the defaults of a definition, and says why a server would refuse it.
func check(crd *apiextensionsv1.CustomResourceDefinition) error {
	apiextensionsv1.SetObjectDefaults_CustomResourceDefinition(crd)
	crd.Status.StoredVersions = nil
	errs, err := Check(context.Background(), crd, nil)
	return errors.Join(err, errs.ToAggregate())
}

// undescribe takes the texts out of a schema, which are most of it.
func undescribe(s *apiextensionsv1.JSONSchemaProps) {
	if s == nil {
		return
	}
	s.Description, s.Example, s.ExternalDocs = "", nil, nil
	for _, members := range []map[string]apiextensionsv1.JSONSchemaProps{s.Properties, s.PatternProperties, s.Definitions} {
		for name, member := range members {
			undescribe(&member)
			members[name] = member
		}
	}
	for _, list := range [][]apiextensionsv1.JSONSchemaProps{s.AllOf, s.OneOf, s.AnyOf} {
		for i := range list {
			undescribe(&list[i])
		}
	}
	undescribe(s.Not)
	if s.Items != nil {
		undescribe(s.Items.Schema)
	}
	if s.AdditionalProperties != nil {
		undescribe(s.AdditionalProperties.Schema)
	}
}

// build makes the definitions of entries that were checked.
func build(all []entry) ([]*Definition, error) {
	var out []*Definition
	for _, e := range all {
		d, err := definition(e.CRD)
		if err != nil {
			return nil, fmt.Errorf("simulate: %s: CustomResourceDefinition %s: %w", e.File, e.CRD.Name, err)
		}
		if i := slices.IndexFunc(out, func(o *Definition) bool { return o.Name == d.Name }); i >= 0 {
			return nil, fmt.Errorf("simulate: %s: CustomResourceDefinition %s: it is in %s, too: name one folder that has it", e.File, d.Name, all[i].File)
		}
		out = append(out, d)
	}
	return out, nil
}

// cacheFormat changes with what the cache has.
const cacheFormat = "1"

// cacheOf returns the file that the definitions of some files are kept in; "": there is none.
func cacheOf(names []string, contents [][]byte) string {
	dir, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	sum := sha256.New()
	fmt.Fprintln(sum, cacheFormat)
	for i, name := range names {
		fmt.Fprintf(sum, "%q %d\n%s", name, len(contents[i]), contents[i])
	}
	return filepath.Join(dir, "lw-simulate", fmt.Sprintf("%x.json", sum.Sum(nil)))
}

func cached(file string) (all []entry) {
	if data, err := os.ReadFile(file); err != nil || json.Unmarshal(data, &all) != nil {
		return nil
	}
	return all
}

// keep writes a file of the cache. That it cannot be written is no error: it is read again then.
func keep(file string, all []entry) {
	data, err := json.Marshal(all)
	if err != nil || file == "" || os.MkdirAll(filepath.Dir(file), 0o755) != nil {
		return
	}
	f, err := os.CreateTemp(filepath.Dir(file), "new-*")
	if err != nil {
		return
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), file)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
}
