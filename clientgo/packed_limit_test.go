package clientgo_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/clientgo"
	"github.com/go-lw/lw/internal/apiserver"
	"github.com/go-lw/lw/internal/verify/rig"
)

// noisy returns a pod with 4 KB that do not pack.
func noisy(name string, version int) *corev1.Pod {
	p := pod("default", name)
	p.Labels = map[string]string{"app": "web"}
	r := rand.New(rand.NewPCG(uint64(len(name)), uint64(version)))
	noise := make([]byte, 4<<10)
	for i := range noise {
		noise[i] = byte('#' + r.IntN(57)) // neither " nor \
	}
	p.Status.Message = string(noise)
	return p
}

// The informers of Decoders with one Limit share it. Reads have whole objects; a read that can fail
// names the object that could not be read, and a handler is called with whole new objects.
func TestDecoderLimit(t *testing.T) {
	for _, content := range []string{apiruntime.ContentTypeJSON, apiruntime.ContentTypeProtobuf} {
		rig.Subtest(t, content, func(t *testing.T) { testDecoderLimit(t, content) })
	}
}

func testDecoderLimit(t *testing.T, content string) {
	s, config := newCaptureServer(t), &rest.Config{ContentConfig: rest.ContentConfig{ContentType: content}}
	for i := range 12 {
		rig.Must[apiserver.Object](t)(s.pods.Create(noisy(fmt.Sprint("n", i), i)))
	}
	limit := &lw.PackLimit{Bytes: 24 << 10}
	client := clientgo.Capture(s.client(t, config))
	readFails(t, s, limit, typedPods(t, config, client, noTweak))
	informer := func() cache.SharedIndexInformer {
		inf := clientgo.Decoder{Limit: limit}.NewInformer(typedPods(t, config, client, noTweak), &corev1.Pod{}, 0,
			cache.Indexers{"app": func(obj any) ([]string, error) { return []string{obj.(*corev1.Pod).Labels["app"]}, nil }})
		rig.Must[cache.ResourceEventHandlerRegistration](t)(inf.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc: func(obj any) {
				if p := obj.(*corev1.Pod); p.Status.Message == "" && p.Name[0] == 'n' {
					t.Errorf("%s was added with its metadata alone", p.Name)
				}
			},
		}))
		t.Cleanup(runInformer(t, inf))
		return inf
	}
	x := informer().GetIndexer()
	informer()
	time.Sleep(time.Minute)
	if u := limit.Usage(); u.LetGo < 16 || u.Bytes > limit.Bytes {
		t.Errorf("two informers of 12: %+v", u)
	}
	whole := func(objs []any) {
		t.Helper()
		for _, obj := range objs {
			if p := obj.(*corev1.Pod); p.Name[0] == 'n' && len(p.Status.Message) != 4<<10 {
				t.Errorf("%s has its metadata alone", p.Name)
			}
		}
		rig.Same(t, "objects", 15, len(objs))
	}
	whole(x.List())
	whole(rig.Must[[]any](t)(x.ByIndex("app", "web")))
	whole(rig.Must[[]any](t)(x.Index("app", noisy("n0", 0))))
}

// readFails checks the reads of an informer of which nobody has an object, while no list is
// allowed.
func readFails(t *testing.T, s *captureServer, limit *lw.PackLimit, lister cache.ListerWatcher) {
	t.Helper()
	inf := clientgo.Decoder{Limit: limit}.NewInformer(lister, &corev1.Pod{}, 0,
		cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	defer runInformer(t, inf)()
	time.Sleep(time.Minute)
	x := inf.GetIndexer()
	for range 3 {
		runtime.GC()
	}
	s.Inject(apiserver.Fault{Verb: apiserver.List, Times: -1,
		Do: apiserver.Fail(apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "", errors.New("no")))})
	failed := 0
	for i := range 12 {
		key := fmt.Sprint("default/n", i)
		obj, ok, err := x.GetByKey(key)
		switch {
		case err == nil:
			if !ok || len(obj.(*corev1.Pod).Status.Message) == 0 {
				t.Errorf("%s has its metadata alone", key)
			}
		case !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), key):
			t.Errorf("the error is %v", err)
		default:
			failed++
		}
	}
	if _, err := x.ByIndex(cache.NamespaceIndex, "default"); !apierrors.IsForbidden(err) {
		t.Errorf("the error is %v", err)
	}
	if failed == 0 { // some may still be decoded
		t.Error("no read has failed")
	}
	s.Clear()
}
