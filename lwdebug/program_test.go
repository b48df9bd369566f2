package lwdebug_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-lw/lw/internal/rig"
)

// boardProgram follows a collection and serves HTTP. Its informer is in an interface, so the linker
// keeps the methods of every type that an informer refers to. The comments are for its variants.
const boardProgram = `package main

import (
	"context"
	"fmt"
	"net/http"

	"github.com/go-lw/lw"
	//page	"github.com/go-lw/lw/lwdebug"
)

type Pod struct {
	lw.Meta ` + "`json:\"metadata\"`" + `
}

func main() {
	opts := &lw.Options{Name: "pods"}
	//board	var board lw.Board
	//board	opts.Board = &board
	//page	http.Handle("/debug/lw", lwdebug.Handler(&board))
	inf := lw.NewInformer(&lw.HTTP[*Pod]{URL: "http://localhost/api/v1/pods"}, opts)
	g := lw.NewGraph(nil)
	lw.Derive(g, inf, func(p *Pod) *Pod { return p })
	http.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { fmt.Fprintln(w, g, inf) })
	go http.ListenAndServe(":8080", nil)
	for _, r := range []interface{ Run(context.Context) error }{inf, g} {
		fmt.Println(r.Run(context.Background()))
	}
}
`

// Only a program that serves a board has its page in it.
func TestProgramWithoutABoard(t *testing.T) {
	for _, tt := range []struct {
		name string
		with []string
		want bool
	}{
		{"a board that is not served", []string{"board"}, false},
		{"a board that is served", []string{"board", "page"}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			source := boardProgram
			for _, variant := range tt.with {
				source = strings.ReplaceAll(source, "//"+variant, "")
			}
			dir := t.TempDir()
			file, program := filepath.Join(dir, "main.go"), filepath.Join(dir, "program")
			rig.OK(t, os.WriteFile(file, []byte(source), 0o644))
			if out, err := exec.Command("go", "build", "-ldflags=-w", "-o", program, file).CombinedOutput(); err != nil {
				t.Fatalf("go build: %v\n%s", err, out)
			}
			symbols := rig.Must[[]byte](t)(exec.Command("go", "tool", "nm", program).Output())
			for _, symbol := range []string{"lw/lwdebug.page.ServeHTTP", "lw/internal/board.(*Report).Page", "lw/internal/markup.(*Writer).Text"} {
				if got := strings.Contains(string(symbols), symbol); got != tt.want {
					t.Errorf("%s in the program: %v, want %v", symbol, got, tt.want)
				}
			}
			// This one is in each of them: the list of symbols is what it seems to be.
			if !strings.Contains(string(symbols), "lw.(*Graph).Run") {
				t.Error("lw.(*Graph).Run is not in the program")
			}
		})
	}
}
