package clientgo

import (
	"strings"
	"testing"

	"github.com/go-lw/lw/internal/verify/rig"
)

func TestHookConstructor(t *testing.T) {
	got := rig.Must[string](t)(hookConstructor(`package cache

func NewSharedIndexInformerWithOptions(source Source, example any, o Options) Informer {
	return nil
}
`))
	want := `package cache

func NewSharedIndexInformerWithOptions(source Source, example any, o Options) Informer { if hook := NewSharedIndexInformerHook; hook != nil { if inf := hook(source, example, o, ); inf != nil { return inf } };
	return nil
}
`
	if got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
	if _, err := hookConstructor("package cache\n"); err == nil {
		t.Error("no error for a file without the constructor")
	}
}

func TestHookReflector(t *testing.T) {
	got := rig.Must[string](t)(hookReflector("package cache\n\nfunc (r *Reflector) RunWithContext(ctx context.Context) {\n}\n"))
	if want := "package cache\n\nfunc (r *Reflector) RunWithContext(ctx context.Context) { if r.ranByHook(ctx) { return };\n}\n"; got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
	if _,
		err := hookReflector("package cache\n\nfunc (c *controller) RunWithContext(ctx context.Context) {}\n"); err == nil {
		t.Error("no error for a file without the method")
	}
}

const informerTests = `package cache

func eventHandlerCount(i SharedInformer) int {
	return len(i.(*sharedIndexInformer).listeners)
}

func isStarted(i SharedInformer) bool { return i.(*sharedIndexInformer).started }

func isRegistered(i SharedInformer) bool { return i.(*sharedIndexInformer).has() }

func TestSharedInformerWatchDisruption(t *testing.T) {
	informer := NewSharedInformer(a(), b, 1).(*sharedIndexInformer)
	clock := testingclock.NewFakeClock(now)
	informer.clock = clock
	informer.other.clock = clock
	for _, listener := range listeners {
		listener.receivedItemNames = []string{}
	}
	clock.Step(1)
}

func TestPrivate(t *testing.T) {
	informer := NewSharedInformer(a, b, 1).(*sharedIndexInformer)
	informer.private()
}

func TestPlain(t *testing.T) {
	informer := NewSharedInformer(a, b, 1)
}
`

func TestRewriteInformerTests(t *testing.T) {
	private := map[string]string{"TestPrivate": "is private"}
	got := rig.Must[string](t)(rewriteInformerTests(informerTests, private))
	want := `package cache









func sharedInformerWatchDisruption(t *testing.T) {
	informer := newHandled(a(), b, 1)
	clock := newBubbleClock(informer)
	
	
	for _, listener := range listeners {
		listener.reset()
	}
	clock.Step(1)
}

func TestPrivate(t *testing.T) {
	informer := NewSharedInformer(a, b, 1).(*sharedIndexInformer)
	informer.private()
}

func TestPlain(t *testing.T) {
	informer := newHandled(a, b, 1)
}
`
	if got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
	for what, change := range map[string][2]string{
		"a helper":  {"func isStarted(", "func isRunning("},
		"the clock": {"testingclock.NewFakeClock(now)", "now"},
		"the reset": {"[]string{}", "nil"},
		"the test":  {"TestSharedInformerWatchDisruption", "TestDisruption"},
		"the kept":  {"TestPrivate", "TestPublic"},
	} {
		if _, err := rewriteInformerTests(strings.Replace(informerTests, change[0], change[1], 1), private); err == nil {
			t.Errorf("no error when %s is gone", what)
		}
	}
}

func TestRewriteTypedTests(t *testing.T) {
	got := rig.Must[string](t)(rewriteTypedTests("package cache\n\nvar x = NewIndexer(f, NewIndexerOptions())\n"))
	if want := "package cache\n\nvar x = newPodIndexer(f, NewIndexerOptions())\n"; got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
}
