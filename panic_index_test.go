package lw_test

import (
	"strings"
	"testing"
	"testing/synctest"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/go-lw/lw"
)

// Without OnPanic a panic of an index's function is nobody's but the program's: it comes out as it was.
func TestPanicOfAnIndexWithoutOnPanic(t *testing.T) {
	for name, objs := range map[string][]*Widget{"list": {widget("a", -1)}, "event": nil} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := lw.NewMemory(objs...)
				inf := lw.NewInformer(m, nil)
				lw.NewIndex(inf, func(w *Widget) int {
					if w.Size < 0 {
						panic("negative")
					}
					return w.Size
				})
				came := make(chan any, 1)
				go func() {
					defer func() { came <- recover() }()
					_ = inf.Run(t.Context())
				}()
				synctest.Wait()
				if name == "event" {
					create(t, m, "a", -1)
				}
				if v := <-came; v != "negative" {
					t.Errorf("Run panicked with %v", v)
				}
			})
		})
	}
}

// boxed is an object that is no pointer to one.
type boxed struct{ metav1.Object }

// A type of objects that a Memory cannot write to is refused with its name.
func TestMemoryOfWhatCannotBeWritten(t *testing.T) {
	defer func() {
		if v, ok := recover().(string); !ok || !strings.Contains(v, "lw: NewMemory: ") || !strings.Contains(v, "neither metav1.Object nor an embedded lw.Meta") {
			t.Errorf("NewMemory panicked with %v", v)
		}
	}()
	lw.NewMemory[boxed]()
}
