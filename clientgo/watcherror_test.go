package clientgo_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/clientgo"
	"github.com/go-lw/lw/internal/verify/rig"
	"github.com/go-lw/lw/lwtest"
)

// handleErrors replaces client-go's handlers of errors during the test. The default ones wait for a
// clock that all bubbles share.
func handleErrors(t *testing.T) *reported {
	r := &reported{}
	rig.Swap(t, &utilruntime.ErrorHandlers, []utilruntime.ErrorHandler{func(_ context.Context, err error, msg string,
		_ ...any) {
		r.Add(cmp.Or(err, errors.New("no error")))
		r.messages.note("%s", msg)
	}})
	return r
}

type reported struct {
	rig.Errors
	messages calls
}

// refused returns the errors with this text since its last call.
func (r *reported) refused(text string) (errs []error) {
	for _, err := range r.All() {
		if strings.Contains(err.Error(), text) {
			errs = append(errs, err)
		}
	}
	r.TakeSorted()
	return errs
}

// want checks that these errors, in their order as text, were reported since the last check.
func (r *reported) want(t *testing.T, errs ...string) {
	t.Helper()
	synctest.Wait()
	rig.Same(t, "errors", errs, r.TakeSorted())
}

// The handler of watch errors gets the failures of requests as they are, with the context of Run.
func TestWatchErrorHandler(t *testing.T) {
	overAll(t, func(t *testing.T, impl implementation, server *podMemory) {
		inf := impl.new(server, cache.SharedIndexInformerOptions{ObjectDescription: "the pods"})
		if impl.lent {
			fails(t, inf.SetWatchErrorHandler(func(*cache.Reflector, error) {}), "lw.Options.OnError")
			fails(t, inf.SetWatchErrorHandlerWithContext(cache.DefaultWatchErrorHandler), "lw.Options.OnError")
			return
		}
		type key struct{}
		var errs []error
		handler := func(ctx context.Context, r *cache.Reflector, err error) {
			if ctx.Value(key{}) != "of Run" || r.TypeDescription() != "the pods" || r.Name() == "" {
				t.Errorf("context %v, reflector %q of %q", ctx.Value(key{}), r.Name(), r.TypeDescription())
			}
			errs = append(errs, err)
			time.Sleep(time.Millisecond)
		}
		rig.OK(t, inf.SetWatchErrorHandler(func(*cache.Reflector, error) { t.Error("the handler that was replaced") }))
		rig.OK(t, inf.SetWatchErrorHandlerWithContext(handler))
		server.Fail(apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "", errors.New("no role")))
		runIn(t, context.WithValue(t.Context(), key{}, "of Run"), inf)
		rig.Sleep(time.Minute)
		fails(t, inf.SetWatchErrorHandler(nil), "informer has already started$")
		if len(errs) < 3 {
			t.Errorf("%d errors in a minute of failures", len(errs))
		}
		for _, err := range errs {
			if !apierrors.IsForbidden(err) || errors.As(err, new(*lw.Error)) {
				t.Errorf("error %#v", err)
			}
		}
		server.Fail(nil)
		server.create(t, labelled("a"))
		rig.Sleep(time.Minute)
		errs = nil
		rig.Same(t, "synced after the failures", true, inf.HasSynced())
		// An error that nobody wraps can be compared.
		server.Fail(io.ErrUnexpectedEOF)
		rig.Sleep(10 * time.Minute)
		if !slices.ContainsFunc(errs, func(err error) bool { return errors.Is(err, io.ErrUnexpectedEOF) }) {
			t.Errorf("errors of a broken network: %v", errs)
		}
	})
}

// Without a handler of its own, an informer reports to those of the process, as client-go does.
func TestDefaultWatchErrorHandler(t *testing.T) {
	overAll(t, func(t *testing.T, impl implementation, server *podMemory) {
		errs := handleErrors(t)
		if impl.lent {
			return
		}
		server.Fail(apierrors.NewServiceUnavailable("down"))
		inf := impl.new(server, cache.SharedIndexInformerOptions{})
		rig.OK(t, inf.SetWatchErrorHandlerWithContext(nil))
		stop := runInformer(t, inf)
		time.Sleep(300 * time.Millisecond) // less than the first pause
		stop()
		msgs, texts := errs.messages.take(), errs.Texts()
		if len(texts) == 0 || !strings.Contains(texts[0], "down") || msgs[0] != "Failed to watch" {
			t.Errorf("reported %q: %q", msgs, texts)
		}
	})
}

// A handler that hangs delays neither the informer nor its handlers, and memory is bounded. What
// waits is reported when it returns, unless the informer has stopped meanwhile.
func TestWatchErrorHandlerHangs(t *testing.T) {
	for _, stopped := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			server := newPodMemory()
			inf := clientgo.NewInformer(server, &corev1.Pod{}, 0, nil)
			release := make(chan struct{})
			n := 0
			rig.OK(t, inf.SetWatchErrorHandler(func(*cache.Reflector, error) { n++; <-release }))
			ctx, cancel := context.WithCancel(t.Context())
			defer runIn(t, ctx, inf)()
			server.Fail(errors.New("down"))
			time.Sleep(24 * time.Hour)
			server.Fail(nil)
			server.create(t, labelled("a"))
			time.Sleep(time.Hour)
			if !inf.HasSynced() || len(inf.GetStore().List()) != 1 {
				t.Error("the informer waits for a handler of errors")
			}
			rig.Same(t, "calls at a time", 1, n)
			if stopped {
				cancel()
				synctest.Wait()
			}
			close(release)
			synctest.Wait()
			if least, most := 10, 100; stopped && n != 1 || !stopped && (n < least || n > most) {
				t.Errorf("stopped %t: %d calls in the end", stopped, n)
			}
			cancel()
		})
	}
}

// What a manager reads of a server that refuses to list and to watch, and then permits it: no more
// failures than of client-go's informer, one for each attempt, and that it works again.
func TestRecordsOfARefusal(t *testing.T) {
	for name, newInformer := range map[string]func(cache.ListerWatcher, runtime.Object, time.Duration,
		cache.Indexers) cache.SharedIndexInformer{
		"client-go": cache.NewSharedIndexInformer, "lw": clientgo.NewInformer,
	} {
		rig.Subtest(t, name, func(t *testing.T) {
			server := newPodMemory()
			server.Fail(apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "", errors.New("no role")))
			inf := newInformer(server, &corev1.Pod{}, 0, nil)
			var refused []error
			var at []time.Time
			rig.OK(t, inf.SetWatchErrorHandlerWithContext(func(_ context.Context, _ *cache.Reflector, err error) {
				refused, at = append(refused, err), append(at, time.Now())
			}))
			var book bytes.Buffer
			stop := runIn(t, loggedTo(t, &book), inf)
			rig.Sleep(15 * time.Second)
			t.Logf("%d failures and %d other records in 15 s", len(refused), strings.Count(book.String(), "\n"))
			// A streamed list that is refused, and the list that follows at once, are one failure.
			if n := len(slices.Compact(at)); n < 3 || n > 8 || n != len(refused) {
				t.Errorf("%d failures in 15 s, at %d moments, want 3 to 8: %v", len(refused), n, refused)
			}
			if i := slices.IndexFunc(refused, func(err error) bool { return !apierrors.IsForbidden(err) }); i >= 0 {
				t.Errorf("failure %v", refused[i])
			}
			server.Fail(nil)
			rig.Sleep(time.Minute)
			stop()
			if name != "lw" {
				return
			}
			told := book.String()
			if strings.Count(told, "\n") != 1 || !strings.Contains(told, `"lw: Pod: synced" informer="Pod"`) ||
				!strings.Contains(told, `decoder="client-go"`) {
				t.Errorf("records, want one, that it has synced after failures:\n%s", told)
			}
		})
	}
}

// A manager reads that an informer works again, and not that one has synced without a failure.
func TestRecordsOfARecovery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		handleErrors(t)
		server := newPodMemory(labelled("a"))
		inf := clientgo.NewInformer(server, &corev1.Pod{}, 0, nil)
		var book bytes.Buffer
		stop := runIn(t, loggedTo(t, &book), inf)
		rig.Sleep(time.Minute)
		rig.Same(t, "records without a failure", "", book.String())
		server.Fail(io.ErrUnexpectedEOF)
		time.Sleep(time.Minute)
		server.Fail(nil)
		rig.Sleep(time.Minute)
		stop()
		if n := strings.Count(book.String(), `"lw: Pod: works again" informer="Pod"`); n != 1 {
			t.Errorf("%d records that it works again, want 1:\n%s", n, &book)
		}
	})
}

// Controllers and reflectors of a Decoder have its options, and lw decodes for them.
func TestDecoderOptionsOfAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		handleErrors(t)
		s, config := newCaptureServer(t), &rest.Config{}
		lister := typedPods(t, config, clientgo.Capture(s.client(t, config)), noTweak)
		var board lw.Board
		var failed sync.Map
		decoder := clientgo.Decoder{Options: &lw.Options{Board: &board, OnError: func(err error) {
			if e, ok := errors.AsType[*lw.Error](err); ok {
				failed.Store(e.Informer, true)
			}
		}}}
		_, controller := decoder.NewController(cache.InformerOptions{ListerWatcher: lister, ObjectType: &corev1.Pod{}})
		store := cache.NewStore(cache.MetaNamespaceKeyFunc)
		reflector := decoder.NewReflector(lister, &corev1.Pod{}, store, cache.ReflectorOptions{Name: "mine",
			MinWatchTimeout: time.Hour})
		go controller.RunWithContext(t.Context())
		go reflector.RunWithContext(t.Context())
		synctest.Wait()
		got := map[string]string{}
		for name, status := range board.Informers() {
			got[name] = status.Decoder
		}
		rig.Same(t, "on the board", map[string]string{"Pod": "lw", "mine": "lw"}, got)
		if len(store.ListKeys()) != 3 || reflector.LastSyncResourceVersion() == "" {
			t.Errorf("the store has %v at %q", store.ListKeys(), reflector.LastSyncResourceVersion())
		}
		s.SetDown(true)
		synctest.Wait()
		for _, name := range []string{"Pod", "mine"} {
			_, told := failed.Load(name)
			rig.Same(t, "OnError was told of "+name, true, told)
		}
	})
}

// A detector that was asked for by an option tells OnError, and does not end the program.
func TestDecoderOptions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := lwtest.NewServer(t, lwtest.Resource{Plural: "pods", Kind: "Pod"})
		pods := lwtest.Objects[*corev1.Pod](server, "pods")
		rig.Must[*corev1.Pod](t)(pods.Create(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a"}}))
		clientset := rig.Must[*kubernetes.Clientset](t)(kubernetes.NewForConfigAndClient(&rest.Config{
			Host: server.URL(), ContentConfig: rest.ContentConfig{ContentType: "application/json"},
		}, clientgo.Capture(server.Client())))
		var board lw.Board
		var found []string
		decoder := clientgo.Decoder{Options: &lw.Options{Name: "mine", Board: &board, DetectMutation: true,
			OnError: func(err error) {
				if e, ok := errors.AsType[*lw.Error](err); ok {
					found = append(found, e.Informer+": "+e.Op)
				}
			}}}
		lister := cache.NewListWatchFromClient(clientset.CoreV1().RESTClient(), "pods", "", fields.Everything())
		inf := decoder.NewInformer(lister, &corev1.Pod{}, 0, nil)
		go inf.RunWithContext(t.Context())
		synctest.Wait()
		for name := range board.Informers() {
			found = append(found, "on the board: "+name)
		}
		for _, obj := range inf.GetStore().List() {
			obj.(*corev1.Pod).Labels = map[string]string{"changed": "yes"}
		}
		// The write before the next look tells the race detector that the look comes after the mutation.
		rig.Must[*corev1.Pod](t)(pods.Create(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "b"}}))
		rig.Sleep(10 * time.Minute)
		rig.Same(t, "", []string{"on the board: mine", "mine: mutation"}, found)
	})
}
