package layers

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// A Room is files of a package that hold one idea. The files of a room may use each other.
type Room struct {
	Name  string
	Files []string // patterns of path.Match
	Uses  []string // the rooms below that it may use
}

// Rooms is the architecture of package lw, the lowest room first. docs/rooms.svg is drawn from it.
var Rooms = []Room{
	{"words", []string{"doc.go", "lw.go", "error.go", "options.go", "status*.go", "usage.go"}, nil},
	{"log", []string{"fifo.go", "cursor.go"}, []string{"words"}},
	{"index", []string{"index*.go"}, []string{"words"}},
	{"hub", []string{"hub*.go", "overlay*.go", "handler.go", "wait.go"}, []string{"words", "log", "index"}},
	{"sources", []string{"listwatch*.go", "http.go", "memory.go", "feed.go", "transform.go", "wanted.go", "pack*.go"},
		[]string{"words"}},
	{"reflector", []string{"reflector*.go"}, []string{"words"}},
	{"informer", []string{"informer.go", "tell.go", "demand.go", "mutation.go", "group.go"},
		[]string{"words", "index", "hub", "reflector"}},
	{"graph", []string{"collection.go", "graph*.go", "derived*.go", "join*.go", "aggregate.go", "union.go"},
		[]string{"words", "log", "index", "hub", "sources", "reflector", "informer"}},
}

// roomOf returns the first of rooms that has the file, or nil.
func roomOf(rooms []Room, file string) *Room {
	at := slices.IndexFunc(rooms, func(r Room) bool {
		return slices.ContainsFunc(r.Files, func(pattern string) bool {
			ok, _ := path.Match(pattern, file)
			return ok
		})
	})
	if at < 0 {
		return nil
	}
	return &rooms[at]
}

// Check returns an error that names each arrow that leads to a room that the file's own room may
// not use, and each file that is in no room.
func Check(rooms []Room, arrows []Arrow, files []string) error {
	var wrong []string
	for i, r := range rooms {
		for _, name := range r.Uses {
			if !slices.ContainsFunc(rooms[:i], func(other Room) bool { return other.Name == name }) {
				wrong = append(wrong, fmt.Sprintf("the room %s may use %s, which is not below it", r.Name, name))
			}
		}
	}
	for _, file := range files {
		if roomOf(rooms, file) == nil {
			wrong = append(wrong, file+" is in no room")
		}
	}
	for _, a := range arrows {
		from, to := roomOf(rooms, a.From), roomOf(rooms, a.To)
		if from != nil && to != nil && from != to && !slices.Contains(from.Uses, to.Name) {
			wrong = append(wrong, fmt.Sprintf("%v: the room %s may not use %s", a, from.Name, to.Name))
		}
	}
	if len(wrong) == 0 {
		return nil
	}
	slices.Sort(wrong)
	return fmt.Errorf("layers: %d wrong:\n%s", len(wrong), strings.Join(slices.Compact(wrong), "\n"))
}
