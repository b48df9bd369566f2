package kubetest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/yaml"
)

const crdPath = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"

// A crd is a CustomResourceDefinition as it was read, and what must be known of it.
type crd struct {
	file string
	raw  json.RawMessage

	Kind     string
	Metadata struct{ Name string }
	Spec     struct {
		Group    string
		Names    struct{ Plural string }
		Versions []struct {
			Name   string
			Served bool
		}
	}
}

// readCRDs reads files, and those in directories.
func readCRDs(paths []string) (all []crd, err error) {
	for _, path := range paths {
		files := []string{path}
		info, err := os.Stat(path)
		if err != nil {
			return nil, fmt.Errorf("kubetest: CRDs: %w", err)
		}
		if info.IsDir() {
			if files, err = filepath.Glob(filepath.Join(path, "*")); err != nil {
				return nil, fmt.Errorf("kubetest: CRDs: %w", err)
			}
			files = slices.DeleteFunc(files, func(file string) bool {
				return !slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(file))
			})
			if len(files) == 0 {
				return nil, fmt.Errorf("kubetest: CRDs: %s has no file in YAML or JSON", path)
			}
		}
		for _, file := range files {
			some, err := readCRDFile(file)
			if err != nil {
				return nil, fmt.Errorf("kubetest: CRDs: %s: %w", file, err)
			}
			all = append(all, some...)
		}
	}
	return all, nil
}

func readCRDFile(file string) (all []crd, err error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	documents := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(content), 4096)
	for {
		c := crd{file: file}
		switch err := documents.Decode(&c.raw); {
		case err == io.EOF:
			return all, nil
		case err != nil:
			return nil, err
		case len(c.raw) == 0 || string(c.raw) == "null":
			continue // nothing but comments
		}
		if err := json.Unmarshal(c.raw, &c); err != nil {
			return nil, err
		}
		if c.Kind != "CustomResourceDefinition" {
			return nil, fmt.Errorf("it has an object of kind %q, which is no CustomResourceDefinition", c.Kind)
		}
		all = append(all, c)
	}
}

// A doer sends requests to an API server.
type doer interface {
	Do(ctx context.Context, method, path, contentType string, in any) ([]byte, error)
}

// install creates the CRDs, and waits until all their versions are served.
func install(ctx context.Context, r doer, crds []crd) error {
	for _, c := range crds {
		if _, err := r.Do(ctx, http.MethodPost, crdPath, "", c.raw); err != nil {
			return fmt.Errorf("%s: create %s: %w", c.file, c.Metadata.Name, err)
		}
	}
	for _, c := range crds {
		for _, v := range c.Spec.Versions {
			if !v.Served {
				continue
			}
			path := "/apis/" + c.Spec.Group + "/" + v.Name + "/" + c.Spec.Names.Plural
			if err := served(ctx, r, path+"?limit=1"); err != nil {
				return fmt.Errorf("%s: %s is not served: %w", c.file, path, err)
			}
		}
	}
	return nil
}

// served waits until there is an answer to a GET of path.
func served(ctx context.Context, r doer, path string) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		_, err := r.Do(ctx, http.MethodGet, path, "", nil)
		if err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		}
	}
}
