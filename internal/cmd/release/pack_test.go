package main

import (
	"archive/zip"
	"bytes"
	"io"
	"slices"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

var repo = fstest.MapFS{
	"LICENSE":              {Data: []byte("license")},
	"go.mod":               {Data: []byte("module m")},
	"lw.go":                {Data: []byte("package m")},
	"a/a.go":               {Data: []byte("package a")},
	"nested/go.mod":        {Data: []byte("module m/nested")},
	"nested/in/n.go":       {Data: []byte("package in")},
	"nested/deeper/go.mod": {Data: []byte("module m/nested/deeper")},
	"nested/deeper/d.go":   {Data: []byte("package deeper")},
}

func TestPack(t *testing.T) {
	var files []string
	for file := range repo {
		files = append(files, file)
	}
	slices.Sort(files)
	for _, tt := range []struct {
		dir, path string
		want      map[string]string
	}{
		{".", "m", map[string]string{
			"m@v0.1.0/LICENSE": "license", "m@v0.1.0/go.mod": "module m", "m@v0.1.0/lw.go": "package m", "m@v0.1.0/a/a.go": "package a",
		}},
		{"nested", "m/nested", map[string]string{
			"m/nested@v0.1.0/LICENSE": "license", "m/nested@v0.1.0/go.mod": "module m/nested", "m/nested@v0.1.0/in/n.go": "package in",
		}},
	} {
		var b bytes.Buffer
		if err := pack(&b, repo, files, tt.dir, tt.path); err != nil {
			t.Fatal(err)
		}
		z, err := zip.NewReader(bytes.NewReader(b.Bytes()), int64(b.Len()))
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]string{}
		for _, f := range z.File {
			r, err := f.Open()
			if err != nil {
				t.Fatal(err)
			}
			data, err := io.ReadAll(r)
			if err != nil {
				t.Fatal(err)
			}
			got[f.Name] += string(data)
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.dir, diff)
		}
	}
	if err := pack(io.Discard, repo, files, "a", "m/a"); err == nil {
		t.Error("a directory that is no module was packed")
	}
}
