package golist

import (
	"go/token"
	"strings"
	"testing"
)

func TestList(t *testing.T) {
	packages, err := List("", "-deps", "-export", ".")
	if err != nil {
		t.Fatal(err)
	}
	own := packages[len(packages)-1] // the dependencies come first
	if own.Name != "golist" || len(own.GoFiles) != 1 || own.Module == nil {
		t.Errorf("the last package is %+v", own)
	}
	if p, err := Importer(token.NewFileSet(), packages).Import("go/types"); err != nil ||
		p.Scope().Lookup("Config") == nil {
		t.Errorf("the import of go/types: %v, %v", p, err)
	}
}

func TestListFails(t *testing.T) {
	if _, err := List("", "./nothing"); err == nil || !strings.HasPrefix(err.Error(), "go list: ") {
		t.Errorf("the error is %v", err)
	}
}
