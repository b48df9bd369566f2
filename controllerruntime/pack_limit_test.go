package controllerruntime_test

import (
	"context"
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
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/go-lw/lw/controllerruntime"
	"github.com/go-lw/lw/internal/apiserver"
	"github.com/go-lw/lw/internal/verify/leak"
	"github.com/go-lw/lw/internal/verify/rig"
)

// noisy returns packable's pod with 4 KB that do not pack.
func noisy(ns string, i, version int) *corev1.Pod {
	p := packable(ns, i, version)
	r := rand.New(rand.NewPCG(uint64(i), uint64(version)))
	noise := make([]byte, 4<<10)
	for j := range noise {
		noise[j] = byte('#' + r.IntN(57)) // neither " nor \
	}
	p.Status.Message = string(noise)
	return p
}

// noisy makes all pods of the bench noisy.
func (b *bench) noisy() {
	for i := range 12 {
		b.write(b.pods.Update, noisy([]string{"a", "b", "c"}[i%3], i/3, i))
	}
}

// A cache with a limit that holds a third of the pods answers every read as one without.
func TestLimitReadsAlike(t *testing.T) {
	leak.Collect(t, time.Millisecond)
	for _, content := range []string{apiruntime.ContentTypeJSON, apiruntime.ContentTypeProtobuf} {
		rig.Subtest(t, content, func(t *testing.T) {
			b := newBench(t)
			b.config.ContentType = content
			b.noisy()
			plain := b.start(controllerruntime.NewCache, cache.Options{})
			few := b.start(controllerruntime.NewCacheWith(controllerruntime.Options{Limit: 24 << 10}), cache.Options{})
			b.fields(plain)
			b.fields(few)
			b.readAlike(t, plain, few, 600, noisy)
			named := 0
			for _, r := range b.Requests() {
				if strings.Contains(r.Options.FieldSelector, "metadata.name=") {
					named++
				}
			}
			if named < 50 {
				t.Errorf("%d requests for what was let go", named)
			}
		})
	}
}

// What was let go and cannot be read is an error of the read, and nothing is missing without one.
func TestLimitErrors(t *testing.T) {
	rig.Subtest(t, "JSON", func(t *testing.T) {
		b := newBench(t)
		b.config.ContentType = apiruntime.ContentTypeJSON
		b.noisy()
		c := b.start(controllerruntime.NewCacheWith(controllerruntime.Options{Limit: 24 << 10}), cache.Options{})
		rig.Must[cache.Informer](t)(c.GetInformer(t.Context(), &corev1.Pod{}))
		for range 3 {
			runtime.GC() // nobody has what the list has brought
		}
		no := apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "", errors.New("no"))
		b.Inject(apiserver.Fault{Verb: apiserver.List, Times: -1, Do: apiserver.Fail(no)})
		failed := 0
		for i := range 12 {
			var p corev1.Pod
			key := client.ObjectKey{Namespace: []string{"a", "b", "c"}[i%3], Name: fmt.Sprint("pod-", i/3)}
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			if err := c.Get(ctx, key, &p); err != nil {
				failed++
				if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), key.String()) {
					t.Errorf("the error is %v", err)
				}
			} else if p.Status.Message == "" {
				t.Errorf("%v has its metadata alone", key)
			}
			cancel()
		}
		if failed < 5 || failed == 12 {
			t.Errorf("%d of 12 were let go", failed)
		}
		var list corev1.PodList
		if err := c.List(t.Context(), &list); !apierrors.IsForbidden(err) {
			t.Errorf("the List: %v, %d pods", err, len(list.Items))
		}
		b.Clear()
		rig.OK(t, c.List(t.Context(), &list))
		if len(list.Items) != 12 {
			t.Errorf("%d pods", len(list.Items))
		}

		// What is deleted before the watch says so is NotFound, and not in a List.
		time.Sleep(time.Minute)
		b.Interrupt(nil, apiserver.Wait(5*time.Second))
		for i := range 4 {
			rig.Must[apiserver.Object](t)(b.pods.Delete(client.ObjectKey{Namespace: "b", Name: fmt.Sprint("pod-", i)}))
		}
		rig.OK(t, c.List(t.Context(), &list))
		for _, p := range list.Items {
			if p.Status.Message == "" {
				t.Errorf("%s/%s has its metadata alone", p.Namespace, p.Name)
			}
		}
	})
	for limit, text := range map[int64]string{-1: "Limit: -1 bytes"} {
		_, err := controllerruntime.NewCacheWith(controllerruntime.Options{Limit: limit})(&rest.Config{}, cache.Options{})
		if err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("the error is %v", err)
		}
	}
}
