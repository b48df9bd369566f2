package lwtest

import (
	"errors"
	"reflect"

	"github.com/google/go-cmp/cmp"
)

// MutationDiff returns the whole difference between a cached object and what somebody made of it, as go-cmp prints it, for an
// error that lw.Options.DetectMutation has reported to OnError. The error itself names the first few fields. For any other error
// it returns "".
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
