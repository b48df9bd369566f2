package lwtest

import (
	"errors"
	"reflect"

	"github.com/google/go-cmp/cmp"
)

// MutationDiff returns the whole difference between an object as it was cached and as it is now,
// printed by go-cmp. err is an error that lw.Options.DetectMutation reported to OnError; its own
// text names only the first few fields that changed. For any other error MutationDiff returns "".
func MutationDiff(err error) string {
	var mutation interface {
		error
		Objects() (cached, now any)
	}
	if !errors.As(err, &mutation) {
		return ""
	}
	cached, now := mutation.Objects()
	return cmp.Diff(cached, now, cmp.Exporter(func(reflect.Type) bool { return true }))
}
