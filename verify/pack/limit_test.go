package pack_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"reflect"
	"runtime"
	"runtime/debug"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	carp "k8s.io/apimachinery/pkg/apis/testapigroup/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/verify/rig"
	"github.com/go-lw/lw/lwtest"
)

// newNoise returns a carp of about so many bytes that do not pack.
func newNoise(name string, n, size int) *carp.Carp {
	c := newCarp(name, n)
	r := rand.New(rand.NewPCG(uint64(n), uint64(len(name))))
	noise := make([]byte, size)
	for i := range noise {
		noise[i] = byte(' ' + 3 + r.IntN(58)) // neither " nor \
	}
	c.Status.Message = string(noise)
	return c
}

// A limited is an informer whose objects do not all fit into its limit.
type limited[T lw.Object] struct {
	server  *lwtest.Server
	objects *lwtest.Collection[*carp.Carp]
	limit   *lw.PackLimit
	inf     *lw.Informer[*lw.Packed[T]]
}

// newLimited returns one of n objects of 8 KB, of which about a third fit.
func newLimited[T lw.Object](t *testing.T, accept string, n int) *limited[T] {
	debug.SetMemoryLimit(1 << 40) // a limit that is set stays: the other tests are not to be slower
	l := &limited[T]{server: lwtest.NewServer(t, carpResource)}
	l.objects = lwtest.Objects[*carp.Carp](l.server, "carps")
	for i := range n {
		rig.Must[*carp.Carp](t)(l.objects.Create(newNoise(fmt.Sprint("c", i), i, 8<<10)))
	}
	l.limit = &lw.PackLimit{Bytes: int64(n * 3 << 10), OnError: func(err error) { t.Error(err) }}
	src := lwtest.Objects[T](l.server, "carps").Source()
	src.Accept = accept
	l.inf = lw.NewInformer(lw.Pack(src, lw.PackOptions{Limit: l.limit}), nil)
	return l
}

func (l *limited[T]) lists() (n int) { return len(l.server.Requests(lwtest.List)) }

// Above the limit the objects that nobody has opened keep their metadata alone. What is read of
// them is whole, in each encoding and form, and costs one request for each.
func TestPackLimit(t *testing.T) {
	for name, kind := range packedKinds {
		t.Run(name, func(t *testing.T) {
			testPackLimit[*carp.Carp](t, kind.accept)
			testPackLimit[*carpPlace](t, kind.accept)
			if name != "protobuf" {
				testPackLimit[*unstructured.Unstructured](t, kind.accept)
			}
		})
	}
}

func testPackLimit[T lw.Object](t *testing.T, accept string) {
	t.Run(reflect.TypeFor[T]().String(), func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			l := newLimited[T](t, accept, 30)
			byNode := lw.NewIndex(l.inf, func(p *lw.Packed[T]) string { return fmt.Sprint(len(p.GetName())) })
			rig.Start(t, l.inf)
			rig.OK(t, l.inf.WaitForSync(t.Context()))
			u := l.limit.Usage()
			if u.Bytes > l.limit.Bytes*3/4 || u.Bytes < l.limit.Bytes/2 || u.LetGo < 15 || u.Requests != 0 {
				t.Errorf("after the list: %+v", u)
			}
			plain := map[lw.Key]T{}
			src := lwtest.Objects[T](l.server, "carps").Source()
			src.Accept = accept
			_, err := src.List(t.Context(), metav1.ListOptions{}, func(obj T, err error) error {
				plain[lw.KeyOf(obj)] = obj
				return err
			})
			rig.OK(t, err)

			// What needs no content needs no request.
			before := l.lists()
			for _, p := range l.inf.Store().List() {
				want := plain[lw.KeyOf(p)]
				if p.GetUID() != want.GetUID() || p.GetResourceVersion() != want.GetResourceVersion() {
					t.Errorf("%s is another object", p.GetName())
				}
				if c, ok := any(want).(interface{ GetLabels() map[string]string }); ok {
					if diff := cmp.Diff(c.GetLabels(), p.GetLabels()); diff != "" {
						t.Error(diff)
					}
				}
			}
			if n := l.lists() - before; n != 0 {
				t.Errorf("%d requests for metadata", n)
			}

			runtime.GC() // nobody has what the list has brought
			got := map[lw.Key]T{}
			for _, p := range l.inf.Store().List() {
				got[lw.KeyOf(p)] = p.Open()
			}
			if diff := cmp.Diff(plain, got); diff != "" {
				t.Errorf("(-plain +packed):\n%s", diff)
			}
			now := l.limit.Usage()
			if now.Requests < uint64(u.LetGo) || now.Requests > 30 || now.Bytes > l.limit.Bytes*3/4 || now.Failed+now.Gone != 0 {
				t.Errorf("after reading all: %+v", now)
			}
			rig.Same(t, "what the status says of it", &now, l.inf.Status().Packed)
			n := 0
			for p := range byNode.Lookup("3") {
				if _, err := p.OpenContext(t.Context()); err != nil {
					t.Error(err)
				}
				n++
			}
			if n != 20 {
				t.Errorf("%d objects in the index", n)
			}
		})
	})
}

// What is read again and again stays, even if it is the largest, and what is large goes first.
func TestPackLimitKeepsWhatIsRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimited[*carp.Carp](t, "application/json", 30)
		small := rig.Must[*carp.Carp](t)(l.objects.Create(newNoise("small", 1, 3<<10)))
		large := rig.Must[*carp.Carp](t)(l.objects.Create(newNoise("large", 1, 9<<10)))
		rig.Start(t, l.inf)
		rig.OK(t, l.inf.WaitForSync(t.Context()))
		read := func(key lw.Key) (kept bool) {
			p, _ := l.inf.Store().Get(key)
			kept = p.Kept() // which a decoded object that somebody has does not say
			p.Open()
			return kept
		}
		runtime.GC() // nobody has what the list has brought
		read(lw.KeyOf(large))
		before := l.limit.Usage().Requests
		for i := range 60 {
			rig.Must[*carp.Carp](t)(l.objects.Update(newNoise(fmt.Sprint("c", 10+i%20), 100+i, 8<<10)))
			synctest.Wait()
			if !read(lw.KeyOf(large)) {
				t.Fatal("what is read all the time was let go")
			}
		}
		if !read(lw.KeyOf(small)) {
			t.Error("what is small was let go")
		}
		if n := l.limit.Usage().Requests - before; n != 0 {
			t.Errorf("%d requests for what is read all the time, and for what is small", n)
		}
	})
}

// A read of what was let go says what went wrong: the server is away, the object is gone, another
// one has its name.
func TestPackLimitErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimited[*carp.Carp](t, "application/json", 30)
		l.limit.OnError = nil
		rig.Start(t, l.inf)
		rig.OK(t, l.inf.WaitForSync(t.Context()))
		gone := l.letGo(t, nil)
		no := apierrors.NewForbidden(schema.GroupResource{Resource: "carps"}, "", errors.New("no"))
		l.server.Inject(lwtest.Fault{Verb: lwtest.List, Effect: lwtest.Fail(no)})
		_, err := gone.OpenContext(t.Context())
		if own, ok := errors.AsType[*lw.Error](err); !ok || !apierrors.IsForbidden(err) || own.Key != lw.KeyOf(gone) || own.Op != "open" {
			t.Errorf("the error is %v", err)
		}
		l.server.Inject(lwtest.Fault{Verb: lwtest.List, Effect: lwtest.Hang()})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		if _, err := gone.OpenContext(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the error is %v", err)
		}
		cancel()

		l.server.Inject(lwtest.Fault{Verb: lwtest.List, Effect: lwtest.Fail(apierrors.NewNotFound(schema.GroupResource{Resource: "carps"}, ""))})
		if _, err := gone.OpenContext(t.Context()); err == nil || apierrors.IsNotFound(err) {
			t.Errorf("404 of the collection: the error is %v", err)
		}

		// A read without an error waits for the server, and not for ever.
		l.server.Inject(lwtest.Fault{Verb: lwtest.List, Times: 3, Effect: lwtest.Fail(no)})
		if diff := cmp.Diff(rig.Must[*carp.Carp](t)(l.objects.Get(lw.KeyOf(gone))), gone.Open()); diff != "" {
			t.Error(diff)
		}
		gone = l.letGo(t, gone)
		l.server.Inject(lwtest.Fault{Verb: lwtest.List, Times: -1, Effect: lwtest.Fail(no)})
		begun, failed := time.Now(), error(nil)
		l.limit.OnError = func(err error) { failed = err }
		rest := gone.Open()
		if took := time.Since(begun); took > 70*time.Second || !apierrors.IsForbidden(failed) {
			t.Errorf("after %v: %v", took, failed)
		}
		want := newNoise(gone.GetName(), 0, 0).ObjectMeta
		if rest.ResourceVersion != "let-go" || rest.Name != want.Name || rest.UID != gone.GetUID() || rest.Labels["name"] != want.Name ||
			rest.Status.Message != "" {
			t.Errorf("what is left is %+v", rest)
		}
		if _, err := l.objects.Update(rest); err == nil {
			t.Error("it can be written")
		}
		l.server.Clear()

		// Before the watch says so: it is gone, and so is it if another one has its name.
		time.Sleep(5 * time.Minute)
		l.server.Stall()
		rig.OK(t, l.objects.Delete(lw.KeyOf(gone)))
		if _, err := gone.OpenContext(t.Context()); !apierrors.IsNotFound(err) {
			t.Errorf("the error is %v", err)
		}
		rig.Must[*carp.Carp](t)(l.objects.Create(newNoise(gone.GetName(), 5, 8<<10)))
		if _, err := gone.OpenContext(t.Context()); !apierrors.IsNotFound(err) {
			t.Errorf("the error is %v", err)
		}
		if rest := gone.Open(); rest.ResourceVersion != "let-go-and-gone" || rest.UID != gone.GetUID() {
			t.Errorf("what is left is %+v", rest.ObjectMeta)
		}
		// What is newer than the store is returned, and not kept in its place.
		gone = l.letGo(t, gone)
		newer := rig.Must[*carp.Carp](t)(l.objects.Update(newNoise(gone.GetName(), 77, 8<<10)))
		now, err := gone.OpenContext(t.Context())
		rig.OK(t, err)
		if now.ResourceVersion != newer.ResourceVersion || now.Status.Message != newer.Status.Message {
			t.Errorf("version %s was opened as %s, and the server has %s", gone.GetResourceVersion(), now.ResourceVersion, newer.ResourceVersion)
		}
		if _, there := gone.Peek(); there {
			t.Error("a newer version stands in the place of this one")
		}
		l.server.Clear()
	})
}

// letGo returns an object that was let go, and is not but.
func (l *limited[T]) letGo(t *testing.T, but *lw.Packed[T]) *lw.Packed[T] {
	t.Helper()
	runtime.GC()
	synctest.Wait()
	for _, p := range l.inf.Store().List() {
		if p != but && !p.Kept() {
			return p
		}
	}
	t.Fatal("nothing was let go")
	return nil
}

// The old version of an update is not asked for: if it was let go, it has its metadata, and
// a version that says so.
func TestPackLimitOldVersions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimited[*carp.Carp](t, "application/json", 30)
		whole, part := 0, 0
		l.inf.AddHandler(lw.Handler[*lw.Packed[*carp.Carp]]{Update: func(old, now *lw.Packed[*carp.Carp]) {
			was, is := old.Open(), now.Open()
			if kept, isWhole := old.OpenKept(); isWhole != (kept.Spec.Hostname != "") || kept.ResourceVersion != was.ResourceVersion {
				t.Errorf("kept of %s is %+v", old.GetName(), kept.ObjectMeta)
			}
			if is.Spec.Hostname != "host100" || was.UID != is.UID || was.Labels["name"] != is.Name {
				t.Errorf("update of %+v to %+v", was.ObjectMeta, is.ObjectMeta)
			}
			want := "let-go"
			if was.Spec.Hostname == "" {
				part++
			} else {
				want = old.GetResourceVersion()
				whole++
			}
			rig.Same(t, "version", want, was.ResourceVersion)
		}})
		rig.Start(t, l.inf)
		rig.OK(t, l.inf.WaitForSync(t.Context()))
		runtime.GC() // nobody has what the list has brought
		before := l.lists()
		for i := range 30 {
			rig.Must[*carp.Carp](t)(l.objects.Update(newNoise(fmt.Sprint("c", i), 100, 8<<10)))
			synctest.Wait()
		}
		if part < 15 || whole == 0 || l.lists() != before {
			t.Errorf("%d old versions were whole, and %d were not; %d requests", whole, part, l.lists()-before)
		}
	})
}

// Until the store shows a change, and after a list that has failed, reads go on to be whole.
func TestPackLimitFailedList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimited[*carp.Carp](t, "application/json", 30)
		l.inf = lw.NewInformer(lw.Pack(l.objects.Source(), lw.PackOptions{Limit: l.limit}),
			&lw.Options{List: lw.ListWhole, OnError: func(error) {}})
		rig.Start(t, l.inf)
		rig.OK(t, l.inf.WaitForSync(t.Context()))
		gone := l.letGo(t, nil)
		l.server.SetDown(true)
		for c := range l.objects.All() {
			rig.Must[*carp.Carp](t)(l.objects.Update(newNoise(c.Name, 100, 8<<10)))
		}
		l.server.Compact()
		bad := lwtest.BreakAfter(29)
		l.server.Inject(lwtest.Fault{Verb: lwtest.List, Times: -1, Match: func(r lwtest.Request) bool { return r.Options.FieldSelector == "" },
			Effect: bad})
		l.server.SetDown(false)
		time.Sleep(5 * time.Minute)
		now, ok := l.inf.Store().Get(lw.KeyOf(gone))
		if !ok || now != gone {
			t.Fatal("the list has not failed")
		}
		if c := gone.Open(); c.Spec.Hostname != "host100" || len(c.Status.Message) != 8<<10 {
			t.Errorf("a read has %+v, a message of %d bytes", c.ObjectMeta, len(c.Status.Message))
		}
		l.server.Clear()
	})
}

// The limit says by collection and namespace what fills it, and forgets what is gone.
func TestPackLimitUsage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimited[*carp.Carp](t, "application/json", 30)
		l.limit.Bytes = 1 << 20
		rig.Start(t, l.inf)
		rig.OK(t, l.inf.WaitForSync(t.Context()))
		u := l.limit.Usage()
		sum := int64(0)
		for _, s := range u.Largest {
			sum += s.Bytes
			if s.URL != l.objects.Source().URL || s.Objects == 0 {
				t.Errorf("%+v", s)
			}
		}
		rig.Same(t, "what the status says", &u, l.inf.Status().Packed)
		if len(u.Largest) != 2 || u.Largest[0].Objects+u.Largest[1].Objects != 30 || sum != u.Bytes || u.LetGo != 0 {
			t.Errorf("%+v", u)
		}
		runtime.GC()                                     // what is decoded anew is not the object that somebody has
		defer debug.SetGCPercent(debug.SetGCPercent(-1)) // and a collection would hide what counts twice
		l.server.Advance(3)
		l.server.Compact()
		l.server.Break()
		time.Sleep(time.Minute)
		if now := l.limit.Usage(); now.Bytes > u.Bytes*11/10 {
			t.Errorf("after a relist: %+v, and before %+v", now, u)
		}
		for i := range 20 {
			rig.Must[*carp.Carp](t)(l.objects.Update(newNoise(fmt.Sprint("c", i%10), 100+i, 8<<10)))
			synctest.Wait()
		}
		if now := l.limit.Usage(); now.Bytes > u.Bytes*11/10 || now.LetGo != 0 {
			t.Errorf("after events: %+v, and before %+v", now, u)
		}
		for c := range l.objects.All() {
			rig.OK(t, l.objects.Delete(lw.KeyOf(c)))
		}
		synctest.Wait()
		for range 3 {
			runtime.GC()
			time.Sleep(time.Second)
		}
		if now := l.limit.Usage(); now.Bytes > u.Bytes/10 {
			t.Errorf("all are deleted: %+v", now)
		}
	})
}

// Objects that are alike pack as small as without a limit: their dictionary is made of those, too,
// that may be let go.
func TestPackLimitDictionary(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimited[*carp.Carp](t, "application/json", 0)
		l.limit.Bytes = 64 << 20
		alike := newNoise("alike", 1, 2500).Status.Message
		for i := range 100 {
			c := newCarp(fmt.Sprint("c", i), i)
			c.Status.Message = alike
			rig.Must[*carp.Carp](t)(l.objects.Create(c))
		}
		rig.Start(t, l.inf)
		rig.OK(t, l.inf.WaitForSync(t.Context()))
		n := 0
		for _, s := range l.limit.Usage().Largest {
			n += s.Objects
		}
		if n == 0 || n > 50 {
			t.Errorf("%d of 100 objects that are alike take 2 KiB", n)
		}
	})
}

// A PackLimit sets the memory limit of the runtime while it is used, and leaves alone one that is
// set. It runs in a process of its own: the testing.T of a bubble keeps what its test had, limits
// among it.
func TestPackLimitPace(t *testing.T) {
	const alone = "LW_TEST_PACE"
	if os.Getenv(alone) == "" {
		cmd := exec.Command(os.Args[0], "-test.run=^TestPackLimitPace$")
		cmd.Env = append(os.Environ(), alone+"=1", "GOMEMLIMIT=")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	was := debug.SetMemoryLimit(math.MaxInt64)
	defer debug.SetMemoryLimit(was)
	settled := func(want int64) { // cleanups run in a goroutine of the runtime
		for range 500 {
			if runtime.GC(); debug.SetMemoryLimit(-1) == want {
				return
			}
			time.Sleep(time.Millisecond)
		}
		t.Errorf("the memory limit is %d, not %d", debug.SetMemoryLimit(-1), want)
	}
	if now := useLimit(t, 64<<20); now < 64<<20 || now > 1<<30 {
		t.Errorf("in use the memory limit is %d", now)
	}
	settled(math.MaxInt64)
	debug.SetMemoryLimit(3 << 30)
	if now := useLimit(t, 64<<20); now != 3<<30 {
		t.Errorf("the program's own limit has become %d", now)
	}
	settled(3 << 30)
}

// useLimit runs an informer with a limit, and returns the memory limit of the runtime then.
func useLimit(t *testing.T, bytes int64) int64 {
	server := lwtest.StartServer(carpResource)
	defer server.Close()
	objects := lwtest.Objects[*carp.Carp](server, "carps")
	rig.Must[*carp.Carp](t)(objects.Create(newNoise("c", 1, 8<<10)))
	inf := lw.NewInformer(lw.Pack(objects.Source(), lw.PackOptions{Limit: &lw.PackLimit{Bytes: bytes}}), nil)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- inf.Run(ctx) }()
	rig.OK(t, inf.WaitForSync(ctx))
	now := debug.SetMemoryLimit(-1)
	cancel()
	rig.OK(t, <-done)
	return now
}

// A handler that waits while all objects change, again and again, does not keep the versions that have
// left the store: the last of them are whole, and the others have their metadata alone.
func TestPackLimitLateHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n, size = 300, 8 << 10
		l := newLimited[*carp.Carp](t, "application/json", n)
		l.limit.Bytes = n * size * 2 // so that the store has all
		wait := make(chan struct{})
		goOn := sync.OnceFunc(func() { close(wait) })
		defer goOn()
		updates := 0
		l.inf.AddHandler(lw.Handler[*lw.Packed[*carp.Carp]]{
			Add: func(*lw.Packed[*carp.Carp]) { <-wait },
			Update: func(_, now *lw.Packed[*carp.Carp]) {
				updates++
				if obj, err := now.OpenContext(t.Context()); err != nil || len(obj.Status.Message) != size {
					t.Errorf("the new version of %s is not whole: %v", now.GetName(), err)
				}
			},
		})
		rig.Start(t, l.inf)
		rig.OK(t, l.inf.WaitForSync(t.Context()))
		var shown []*lw.Packed[*carp.Carp] // what a snapshot has
		for i := range 3 {
			shown = append(shown, l.inf.Store().List()...)
			for c := range l.objects.All() {
				rig.Must[*carp.Carp](t)(l.objects.Update(newNoise(c.Name, n+i, size)))
			}
			synctest.Wait()
		}
		whole := 0
		for _, p := range shown {
			if p.Kept() {
				whole += size
			}
		}
		room := int(l.limit.Bytes)/16 + int(l.limit.Bytes)*3/4 - n*size
		if whole > room || whole < room/2 {
			t.Errorf("%d bytes of old versions are kept, and there is room for %d", whole, room)
		}
		for i, p := range shown[:n] {
			if obj, ok := p.OpenKept(); ok || obj.ResourceVersion != "let-go" {
				t.Fatalf("the oldest version of object %d is kept: %+v", i, obj.ObjectMeta)
			}
		}
		for _, p := range l.inf.Store().List() {
			if !p.Kept() {
				t.Errorf("%s of the store was let go", p.GetName())
			}
		}
		goOn()
		synctest.Wait()
		rig.Same(t, "updates", 3*n, updates)
	})
}
