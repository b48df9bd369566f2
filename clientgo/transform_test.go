package clientgo_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/go-lw/lw/clientgo"
	"github.com/go-lw/lw/internal/rig"
)

// A transform is set until Run, and sees every object once, from the first list on. Its result may
// be of another type.
func TestSetTransform(t *testing.T) {
	overAll(t, func(t *testing.T, impl implementation, server *podMemory) {
		inf := impl.new(server, cache.SharedIndexInformerOptions{})
		if impl.lent {
			err := inf.SetTransform(func(obj any) (any, error) { return obj, nil })
			if err == nil || !strings.Contains(err.Error(), "lw.Transform") {
				t.Errorf("error %v", err)
			}
			if err := inf.SetTransform(nil); err != nil {
				t.Errorf("no transform: %v", err)
			}
			return
		}
		server.create(t, labelled("a", "v=1"))
		var seen []string
		for _, f := range []cache.TransformFunc{
			func(any) (any, error) { return nil, errors.New("replaced before Run") },
			func(obj any) (any, error) {
				p, ok := obj.(*corev1.Pod)
				if !ok && impl.clientgo {
					return obj, nil // client-go transforms a streamed object twice
				}
				seen = append(seen, describe(obj))
				return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: p.Name, Namespace: p.Namespace, UID: p.UID, ResourceVersion: p.ResourceVersion}}, nil
			},
		} {
			if err := inf.SetTransform(f); err != nil {
				t.Error(err)
			}
		}
		var got calls
		mustAdd(t, inf, &got)
		runInformer(t, inf)
		synctest.Wait()
		if err := inf.SetTransform(nil); err == nil || !strings.HasSuffix(err.Error(), "informer has already started") {
			t.Errorf("after Run: %v", err)
		}
		server.create(t, labelled("b", "v=1"))
		got.want(t, "all", "add *v1.PartialObjectMetadata initial", "add *v1.PartialObjectMetadata")
		if diff := cmp.Diff([]string{"a1", "b1"}, seen); diff != "" {
			t.Errorf("the transform saw (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]string{"a", "b"}, names(inf.GetStore().List())); diff != "" {
			t.Errorf("the store has (-want +got):\n%s", diff)
		}
	})
}

// What a transform leaves out is not there, and what it cannot do is reported; neither hides the
// other objects. With client-go they do: see TestTransformNilOfClientGo.
func TestTransformLeavesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		errs := handleErrors(t)
		server := newPodMemory(labelled("a"), labelled("b"), labelled("nil"), labelled("typed-nil"), labelled("fails"), labelled("fails-whole"), labelled("no-object"))
		inf := clientgo.NewInformer(server, &corev1.Pod{}, 0, nil)
		rig.OK(t, inf.SetTransform(func(obj any) (any, error) {
			switch p := obj.(*corev1.Pod); p.Name {
			case "nil":
				return nil, nil
			case "typed-nil":
				return (*corev1.Pod)(nil), nil
			case "fails":
				return nil, errors.New("it is broken")
			case "fails-whole":
				return p, errors.New("it is broken")
			case "no-object":
				return "a string", nil
			default:
				return p, nil
			}
		}))
		stop := runInformer(t, inf)
		synctest.Wait()
		if diff := cmp.Diff([]string{"a", "b"}, names(inf.GetStore().List())); diff != "" || !inf.HasSynced() {
			t.Errorf("the store has (-want +got):\n%s", diff)
		}
		stop()
		errs.want(t, "lw: Pod: transform ns/fails-whole: it is broken", "lw: Pod: transform ns/fails: it is broken", "lw: Pod: transform ns/no-object: the transform returned a string, which has no metadata")
	})
}

// What docs/migrate.md says of client-go: one object that a transform leaves out hides all others,
// and it counts as synced.
func TestTransformNilOfClientGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inf := cache.NewSharedIndexInformer(newPodMemory(labelled("a"), labelled("nil")), &corev1.Pod{}, 0, nil)
		rig.OK(t, inf.SetTransform(func(obj any) (any, error) {
			if p, ok := obj.(*corev1.Pod); ok && p.Name == "nil" {
				return nil, nil
			}
			return obj, nil
		}))
		runInformer(t, inf)
		time.Sleep(time.Hour)
		if got := inf.GetStore().ListKeys(); len(got) != 0 || !inf.HasSynced() {
			t.Errorf("it has synced: %t, with %q: say so in docs/migrate.md", inf.HasSynced(), got)
		}
	})
}
