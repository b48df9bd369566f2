package rig

import "github.com/go-lw/lw"

// Watches returns how many watches and streamed lists were requested.
func Watches(s lw.Status) uint64 { return s.Requests["watch"].Started + s.Requests["stream"].Started }

// Relists returns how many whole lists have replaced the content, but for the first.
func Relists(s lw.Status) uint64 { return sum(s.ListCauses) - s.ListCauses["first"] }

// Heard returns how many events watches have had.
func Heard(s lw.Status) uint64 { return sum(s.Events) }

func sum(counts map[string]uint64) (n uint64) {
	for _, c := range counts {
		n += c
	}
	return n
}
