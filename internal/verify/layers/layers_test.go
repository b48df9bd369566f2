package layers

import (
	"flag"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var (
	update = flag.Bool("update", false, "draw docs/rooms.svg again")
	module = flag.String("module", "", "the folder of a module for TestModule")
)

const root = "../../.."

func TestRooms(t *testing.T) {
	if err := Hold(root); err != nil {
		t.Error(err)
	}
}

// A module that does not depend on lw asks for this by its own test.
func TestModule(t *testing.T) {
	if *module == "" {
		t.Skip("no -module")
	}
	if err := HoldModule(root, *module); err != nil {
		t.Error(err)
	}
}

// Which folder may import which.
func TestProduct(t *testing.T) {
	if err := HoldProduct(root); err != nil {
		t.Error(err)
	}
}

// The files that need each other are found, the most first.
func TestKnots(t *testing.T) {
	var arrows []Arrow
	for _, way := range []string{"a b", "b c", "c a", "c d", "d e", "e d", "f a", "g g"} {
		arrows = append(arrows, Arrow{From: way[:1], To: way[2:]})
	}
	if diff := cmp.Diff([][]string{{"a", "b", "c"}, {"d", "e"}}, Knots(arrows)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	p := Package{Folder: "x", Knot: 2, Rooms: []Room{{"all", []string{"*"}, nil}}}
	loaded := Loaded{Arrows: arrows, Files: []string{"a"}}
	if err := p.check(loaded); err == nil || err.Error() != "x: 3 files need each other, and 2 may: a b c" {
		t.Errorf("a knot that is too large: %v", err)
	}
	if p.Knot = 3; p.check(loaded) != nil {
		t.Error("a knot of as many files as may is an error")
	}
	if err := p.check(Loaded{}); err == nil || err.Error() != "x: the room all has no *" {
		t.Errorf("a room without files: %v", err)
	}
}

// An arrow that leads up is named with its file, its line and what it uses.
func TestArrowUp(t *testing.T) {
	text, err := os.ReadFile(root + "/cursor.go")
	if err != nil {
		t.Fatal(err)
	}
	line := strings.Count(string(text), "\n") + 1
	changed := map[string]string{"cursor.go": string(text) + "var _ = (*Graph).Run\n"}
	loaded, err := Load(root, []string{"."}, changed)
	if err != nil {
		t.Fatal(err)
	}
	err = Check(Rooms, loaded[0].Arrows, loaded[0].Files)
	for _, want := range []Arrow{
		{From: "cursor.go", To: "graph.go", Line: line, Name: "Graph"},
		{From: "cursor.go", To: "graph.go", Line: line, Name: "Run"},
	} {
		if err == nil || !strings.Contains(err.Error(), want.String()+": the room log may not use graph") {
			t.Errorf("the error does not name %q:\n%v", want, err)
		}
	}
}

func TestCheck(t *testing.T) {
	rooms := []Room{{"low", []string{"a*.go"}, nil}, {"side", []string{"b.go"}, nil},
		{"high", []string{"c.go"}, []string{"low", "side"}}}
	for name, test := range map[string]struct {
		arrows []Arrow
		files  []string
		rooms  []Room
		want   string // in the error; "": no error
	}{
		"down":   {arrows: []Arrow{{"c.go", "a.go", 1, "X"}}, rooms: rooms},
		"within": {arrows: []Arrow{{"a.go", "a_b.go", 1, "X"}}, rooms: rooms},
		"up": {arrows: []Arrow{{"a.go", "c.go", 7, "X"}}, rooms: rooms,
			want: "a.go:7 uses X of c.go: the room low may not use high"},
		"side":    {arrows: []Arrow{{"b.go", "a.go", 7, "X"}}, rooms: rooms, want: "the room side may not use low"},
		"no room": {files: []string{"a.go", "d.go"}, rooms: rooms, want: "d.go is in no room"},
		"above": {rooms: []Room{{"low", nil, []string{"high"}}, {"high", nil, nil}},
			want: "the room low may use high, which is not below it"},
		"itself":      {rooms: []Room{{"low", nil, []string{"low"}}}, want: "not below it"},
		"two, sorted": {files: []string{"e.go", "d.go"}, rooms: rooms, want: "layers: 2 wrong:\nd.go is in no room\ne.go"},
	} {
		err := Check(test.rooms, test.arrows, test.files)
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: the error is %v, want %q", name, err, test.want)
		}
	}
}

// docs/rooms.svg is drawn from the list.
func TestPictureOfTheRooms(t *testing.T) {
	const file = root + "/docs/rooms.svg"
	want := Draw()
	if *update {
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("%s is not of the rooms as they are: go test ./internal/verify/layers -run %s -update", file, t.Name())
	}
}

// The files of the picture of an object's way are there, and are of the rooms that the object
// passes.
func TestPictureOfTheWay(t *testing.T) {
	text, err := os.ReadFile(root + "/docs/how-it-works.svg")
	if err != nil {
		t.Fatal(err)
	}
	loaded, err := Load(root, []string{"."}, nil)
	if err != nil {
		t.Fatal(err)
	}
	files := loaded[0].Files
	var passed []string
	for _, name := range regexp.MustCompile(`[a-z_]+\.go`).FindAllString(string(text), -1) {
		if !slices.Contains(files, name) {
			t.Errorf("there is no %s", name)
		} else if r := roomOf(Rooms, name); !slices.Contains(passed, r.Name) {
			passed = append(passed, r.Name)
		}
	}
	for _, folder := range regexp.MustCompile(`internal/[a-z]+`).FindAllString(string(text), -1) {
		if _, err := os.Stat(root + "/" + folder); err != nil {
			t.Error(err)
		}
	}
	// In the order of the picture: the source, the reflector, and what a hub consists of.
	want := []string{"sources", "reflector", "index", "log", "hub"}
	if !slices.Equal(passed, want) {
		t.Errorf("the picture is of the rooms %v, want %v", passed, want)
	}
}
