package main

import (
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"path/filepath"
	"slices"
	"strings"
)

const apiPath = "k8s.io/api"

// goneFile has a type of k8s.io/api v0.35 that newer ones do not have. A program hardly uses it,
// but the OpenAPI definitions that kube-openapi generates for a program name all types that a pod
// had.
//
//go:embed gone.go.txt
var goneFile string

const (
	goneName = "core/v1/zz_lwbuild.go" // of the file, in k8s.io/api
	goneType = "\ntype WorkloadReference struct"
)

// bringBack has the build use a copy of k8s.io/api in which raised programs find what is gone. mods
// are the modules before they were raised.
func (b *builder) bringBack(mods []module, raised map[string]string) error {
	at := slices.IndexFunc(mods, func(m module) bool { return m.Path == apiPath })
	if at < 0 || raised[apiPath] == "" {
		return nil
	}
	if of, ok := minor(mods[at].version()); !ok || of != 35 {
		return nil // the type came with v0.35
	}
	m := module{Path: apiPath}
	if err := b.download(&m); err != nil {
		return err
	}
	dir, err := completed(b.cache, m)
	if err != nil {
		return err
	}
	return b.edit([]string{"-replace=" + apiPath + "=" + dir})
}

// completed returns the folder below cache with a copy of m, k8s.io/api, that has the file of what
// is gone; or its own folder if nothing is gone.
func completed(cache string, m module) (string, error) {
	has := false
	if err := eachFile(filepath.Join(m.Dir, "core", "v1"), func(_ string, data []byte) error {
		has = has || strings.Contains(string(data), goneType)
		return nil
	}); err != nil || has {
		return m.Dir, err
	}
	id := sha256.Sum256([]byte(goneFile))
	return whole(cache, "api@"+m.version()+"-lw"+hex.EncodeToString(id[:])[:12], func(dir string) error {
		put := putIn(dir)
		if err := eachFile(m.Dir, put); err != nil {
			return err
		}
		return put(goneName, []byte(goneFile))
	})
}
