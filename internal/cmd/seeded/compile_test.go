package main

import (
	"path/filepath"
	"strings"
	"testing"
)

// A bug that leaves a variable without a use is told from one that compiles.
func TestCompiler(t *testing.T) {
	root, err := filepath.Abs(filepath.Join("..", "..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	const old, file = "return strings.TrimSpace(string(out)), nil", "internal/cmd/seeded/main.go"
	c := newCompiler(root)
	good := bug{name: "good", in: "./internal/cmd/seeded", edits: one(file, "\t"+old, "\treturn string(out), nil")}
	if err := c.check(good); err != nil {
		t.Error(err)
	}
	bad := bug{name: "bad", in: "./internal/cmd/seeded", edits: one(file, "\t"+old, "\treturn \"\", nil")}
	if err := c.check(bad); err == nil || !strings.Contains(err.Error(), "declared and not used: out") {
		t.Errorf("the error is %v", err)
	}
}
