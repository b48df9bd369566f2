package lwtest

import (
	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/decode/prune"
)

// Prune removes all fields of obj but those of f and those that identify it, and returns obj. So an
// informer with lw.HTTP.Only has the object. A test gives pruned objects to code that reads such an
// informer, and finds what the code reads of the missing fields:
//
//	fake.NewClientset(lwtest.Prune(pod, podFields))
//
// A path of f that names no field is ignored. [lw.HTTP] makes an error of it.
func Prune[T lw.Identified](obj T, f lw.Fields) T {
	prune.Object(obj, nil, f)
	return obj
}
