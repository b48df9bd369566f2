package clientgo_test

import (
	"bytes"
	"context"
	"hash/fnv"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/clientgo"
	"github.com/go-lw/lw/internal/rig"
)

// mine reports whether the pod of this name belongs to the first of two shards.
func mine(name string) bool {
	h := fnv.New32a()
	h.Write([]byte(name))
	return h.Sum32()%2 == 0
}

// filtered changes l so that its lists, its watches or both have the objects of one shard only, as
// kube-state-metrics does.
func filtered(l *cache.ListWatch, lists, watches bool) *cache.ListWatch {
	list, watching := l.ListWithContextFunc, l.WatchFuncWithContext
	if lists {
		l.ListWithContextFunc = func(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
			got, err := list(ctx, opts)
			if err != nil {
				return nil, err
			}
			pods := got.(*corev1.PodList)
			pods.Items = slices.DeleteFunc(pods.Items, func(p corev1.Pod) bool { return !mine(p.Name) })
			return pods, nil
		}
	}
	if watches {
		l.WatchFuncWithContext = func(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
			w, err := watching(ctx, opts)
			if err != nil {
				return nil, err
			}
			return watch.Filter(w, func(ev watch.Event) (watch.Event, bool) {
				p, ok := ev.Object.(*corev1.Pod)
				if !ok {
					// Nobody reads what comes after the end of the context, and a Filter would wait for that.
					return ev, ctx.Err() == nil
				}
				return ev, ev.Type == watch.Bookmark || mine(p.Name)
			}), nil
		}
	}
	return l
}

// announcing changes l so that its first watch is a watch.Filter that has an event of its own, for
// which its goroutine needs a reader also when it is stopped.
func announcing(l *cache.ListWatch) *cache.ListWatch {
	watching, announced := l.WatchFuncWithContext, false
	l.WatchFuncWithContext = func(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
		w, err := watching(ctx, opts)
		if err != nil || announced {
			return w, err
		}
		announced = true
		w.Stop()
		own := watch.NewFakeWithOptions(watch.FakeOptions{ChannelSize: 1})
		own.Add(&corev1.Pod{})
		return watch.Filter(own, func(ev watch.Event) (watch.Event, bool) { return ev, true }), nil
	}
	return l
}

// What a ListerWatcher does to an answer is not lost: it is noticed, client-go decodes, and Status
// and the log say so, once.
func TestDecoderOfAListerWatcherThatChanges(t *testing.T) {
	lists := "client-go: the ListerWatcher returns 1 of the 3 objects of a list"
	watches := "client-go: the ListerWatcher returns a *watch.filteredWatch, which may change the events"
	relabels := func(l *cache.ListWatch) *cache.ListWatch {
		list := l.ListWithContextFunc
		l.ListWithContextFunc = func(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
			got, err := list(ctx, opts)
			if err == nil {
				got.(*corev1.PodList).Items[1].Labels["app"] = "changed"
			}
			return got, err
		}
		return l
	}
	for _, tt := range []struct {
		name    string
		change  func(*cache.ListWatch) *cache.ListWatch
		capture bool
		mode    lw.ListMode
		trust   bool
		decoder string
		sharded bool // the store has one shard
		wire    []string
	}{
		{"nothing", func(l *cache.ListWatch) *cache.ListWatch { return l }, true, lw.ListPages, false, "lw", false, []string{"list default", "watch default"}},
		{"nothing, streamed", func(l *cache.ListWatch) *cache.ListWatch { return l }, true, lw.ListAuto, false, "lw", false, []string{"stream default"}},
		{"lists and watches", func(l *cache.ListWatch) *cache.ListWatch { return filtered(l, true, true) }, true, lw.ListPages, false,
			lists, true, []string{"list default", "watch default"}},
		// The first streamed list was sent before the watch was seen.
		{"lists and watches, streamed", func(l *cache.ListWatch) *cache.ListWatch { return filtered(l, true, true) }, true, lw.ListAuto, false,
			watches, true, []string{"stream default", "stream default"}},
		{"watches", func(l *cache.ListWatch) *cache.ListWatch { return filtered(l, false, true) }, true, lw.ListPages, false,
			watches, false, []string{"list default", "watch default", "watch default"}},
		{"watches, with an event of its own", func(l *cache.ListWatch) *cache.ListWatch { return announcing(filtered(l, false, true)) }, true, lw.ListPages, false,
			watches, false, []string{"list default", "watch default", "watch default"}},
		{"an object", relabels, true, lw.ListPages, false,
			"client-go: the ListerWatcher changes default/pod-1, or the order of the objects", false, []string{"list default", "watch default"}},
		{"lists and watches, trusted", func(l *cache.ListWatch) *cache.ListWatch { return filtered(l, true, true) }, true, lw.ListPages, true,
			"lw", false, []string{"list default", "watch default"}},
		{"without a context", func(l *cache.ListWatch) *cache.ListWatch {
			l.ListWithContextFunc, l.WatchFuncWithContext = nil, nil
			return l
		}, true,
			lw.ListPages, false, "client-go: the ListerWatcher's functions take no context", false, []string{"list default", "watch default"}},
		{"not captured", func(l *cache.ListWatch) *cache.ListWatch { return l }, false, lw.ListPages, false,
			"client-go: no request that lw can decode came through a client of Capture, with the context of the call", false, []string{"list default", "watch default"}},
	} {
		rig.Subtest(t, tt.name, func(t *testing.T) {
			s := newCaptureServer(t)
			config := &rest.Config{}
			var client *http.Client = s.client(t, config)
			if tt.capture {
				client = clientgo.Capture(client)
			}
			lister := tt.change(typedPods(t, config, client, noTweak))
			var board lw.Board
			inf := lw.NewInformer(clientgo.Decoder{Drop: onlyByLW, Trust: tt.trust}.Source(lister, &corev1.Pod{}), &lw.Options{
				List: tt.mode, Board: &board, OnError: func(err error) { t.Error(err) },
			})
			var book bytes.Buffer
			go inf.Run(loggedTo(t, &book))
			rig.OK(t, inf.WaitForSync(t.Context()))
			for _, name := range []string{"a", "b", "c", "d"} {
				s.create(t, name, nil)
			}
			synctest.Wait()
			var want []string
			for _, name := range []string{"a", "b", "c", "d", "pod-0", "pod-1", "pod-2"} {
				created := len(name) == 1
				if mine(name) || !tt.sharded && (!created || tt.decoder == "lw" || tt.decoder != watches) {
					want = append(want, name)
				}
			}
			rig.Same(t, "names", want, storedNames(inf))
			if got := inf.Status().Decoder; got != tt.decoder {
				t.Errorf("decoder %q, want %q", got, tt.decoder)
			}
			rig.Same(t, "requests", tt.wire, s.took())
			records := 1
			if tt.decoder == "lw" {
				records = 0
			}
			if n := strings.Count(book.String(), "client-go decodes the objects"); n != records || strings.Count(book.String(), "\n") != n {
				t.Errorf("%d records, want %d:\n%s", n, records, &book)
			}
		})
	}
	if !mine("pod-0") && !mine("pod-1") && !mine("pod-2") || mine("pod-0") && mine("pod-1") && mine("pod-2") {
		t.Error("all pods of the server are of one shard")
	}
}

// What a Decoder decodes takes from the last version what did not change. It never takes anything
// from an object that client-go has decoded, which has no notes for lw.
func TestDecoderReuse(t *testing.T) {
	for _, tt := range []struct {
		name    string
		decoder clientgo.Decoder
		list    bool // client-go decodes the lists
		want    bool
	}{
		{"captured", clientgo.Decoder{}, false, true},
		{"Whole", clientgo.Decoder{Whole: true}, false, false},
		{"lists of client-go", clientgo.Decoder{}, true, false},
	} {
		rig.Subtest(t, tt.name, func(t *testing.T) {
			s := newCaptureServer(t)
			config := &rest.Config{}
			client := s.client(t, config)
			pods := typedPods(t, config, clientgo.Capture(client), noTweak)
			if tt.list {
				plain := typedPods(t, config, client, noTweak)
				pods = &cache.ListWatch{ListWithContextFunc: plain.ListWithContextFunc, WatchFuncWithContext: pods.WatchFuncWithContext}
			}
			opts := strict(t)
			opts.List = lw.ListWhole
			inf := synced(t, tt.decoder.Source(pods, &corev1.Pod{}), opts)
			version := func(phase corev1.PodPhase) metav1.Object {
				p := pod("default", "pod-1")
				p.Labels = map[string]string{"app": "web"}
				p.Spec.Containers = []corev1.Container{{Name: "main", Image: "image:pod-1"}}
				p.Status.Phase = phase
				if _, err := s.pods.Update(p); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				now, _ := inf.Store().Get(lw.KeyOf(metav1.Object(p)))
				if got := now.(*corev1.Pod).Status.Phase; got != phase {
					t.Fatalf("the store has phase %s, want %s", got, phase)
				}
				return now
			}
			before, after := version("Pending"), version("Running")
			same := reflect.ValueOf(before.GetLabels()).Pointer() == reflect.ValueOf(after.GetLabels()).Pointer()
			if same != tt.want {
				t.Errorf("the labels are those of the last version: %v, want %v", same, tt.want)
			}
		})
	}
}
