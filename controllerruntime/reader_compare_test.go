package controllerruntime_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/selection"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/controllerruntime"
	"github.com/go-lw/lw/internal/verify/leak"
	"github.com/go-lw/lw/internal/verify/rig"
)

// indexedBy are the fields of every object in TestReaderIsLikeTheCache.
var indexedBy = map[string]func(metav1.Object) []string{
	"name": func(o metav1.Object) []string { return []string{o.GetName()} },
	"both": func(o metav1.Object) []string { return []string{o.GetName(), o.GetNamespace(), o.GetName()} },
	"app":  func(o metav1.Object) []string { return []string{o.GetLabels()["app"]} },
	"none": func(metav1.Object) []string { return nil },
}

// compared adds an informer of the kind gvk to r, with all of indexedBy.
func compared[T controllerruntime.Object](b *bench, r *controllerruntime.Reader, gvk schema.GroupVersionKind) {
	b.Helper()
	of := controllerruntime.Fields[T]{}
	for name, values := range indexedBy {
		of[name] = func(obj T) []string { return values(obj) }
	}
	inf := lw.NewInformer[T](&lw.HTTP[T]{URL: b.config.Host + "/api/v1/" + strings.ToLower(gvk.Kind) + "s",
		Client: b.Client()}, nil)
	rig.OK(b, controllerruntime.ServeKind(r, gvk, inf, of))
	runInBubble(b.T, inf)
}

// A read of a Reader is answered as controller-runtime's cache answers it, and so is one of the
// cache that NewCache makes. There is one difference: of several fields, an unknown one is always
// an error of a Reader, but one of the cache only if objects match the fields before it.
func TestReaderIsLikeTheCache(t *testing.T) {
	leak.Collect(t, 5*time.Millisecond)
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.write(b.nodes.Create,
			&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "pod-1", Labels: map[string]string{"app": "web"}}})
		r := controllerruntime.NewReader(nil)
		readers := map[string]client.Reader{"the cache": b.start(newDefault, cache.Options{}),
			"NewCache": b.start(controllerruntime.NewCache, cache.Options{}), "Reader": r,
			"packed": b.start(controllerruntime.NewCacheWith(controllerruntime.Options{Pack: true}), cache.Options{})}
		var forms []func() client.Object
		all := examples()
		for _, name := range slices.Sorted(maps.Keys(all)) {
			forms = append(forms, func() client.Object { return all[name].DeepCopyObject().(client.Object) })
		}
		compared[*corev1.Pod](b, r, podKind)
		compared[*corev1.Node](b, r, nodeKind)
		for _, gvk := range []schema.GroupVersionKind{podKind, nodeKind} {
			compared[*unstructured.Unstructured](b, r, gvk)
			compared[*metav1.PartialObjectMetadata](b, r, gvk)
		}
		for _, of := range forms {
			for name, values := range indexedBy {
				for _, who := range []string{"the cache", "NewCache", "packed"} {
					rig.OK(t, readers[who].(cache.Cache).IndexField(t.Context(), of(), name,
						func(o client.Object) []string { return values(o) }))
				}
			}
		}
		synctest.Wait()
		random := rand.New(rand.NewPCG(1, 2))
		answers := map[string]int{}
		for range 3000 {
			of, ask := forms[random.IntN(len(forms))], randomRead(random)
			want := ask.of(t, readers["the cache"], of())
			for _, who := range []string{"NewCache", "Reader", "packed"} {
				if got := ask.of(t, readers[who], of()); got != want {
					t.Errorf("%s, %T, %v: %s, want %s", who, of(), ask, got, want)
				}
			}
			answers[want]++
		}
		if len(answers) < 50 {
			t.Errorf("%d different answers: the requests are all alike", len(answers))
		}
	})
}

// A read is a Get if it has a key, or a List.
type read struct {
	key  client.ObjectKey
	opts client.ListOptions
}

func (r read) String() string {
	return fmt.Sprintf("get %v, namespace %q, labels %v, fields %v, limit %d, continue %q", r.key, r.opts.Namespace,
		r.opts.LabelSelector, r.opts.FieldSelector, r.opts.Limit, r.opts.Continue)
}

func randomRead(random *rand.Rand) read {
	one := func(of ...string) string { return of[random.IntN(len(of))] }
	namespace := func() string { return one("", "", "a", "b", "z") }
	if random.IntN(3) == 0 {
		return read{key: client.ObjectKey{Namespace: namespace(), Name: one("pod-0", "pod-1", "pod-9", "n0", "a")}}
	}
	var r read
	r.opts.Namespace = namespace()
	r.opts.Limit = int64(random.IntN(12)) - 3
	r.opts.Continue = one("", "", "", "", "", "", "continue-not-supported", "x")
	switch value := one("web", "db", ""); random.IntN(6) {
	case 0:
		r.opts.LabelSelector = labels.Nothing()
	case 1:
		r.opts.LabelSelector = labels.SelectorFromSet(labels.Set{"app": value})
	case 2:
		operator := []selection.Operator{selection.NotEquals, selection.NotIn, selection.In}[random.IntN(3)]
		if q, err := labels.NewRequirement("app", operator, []string{value}); err == nil {
			r.opts.LabelSelector = labels.NewSelector().Add(*q)
		}
	}
	term := func(unknown bool) fields.Selector {
		field, value := one("name", "both", "app", "none"), one("pod-0", "pod-1", "a", "z", "web", "n0", "")
		switch n := random.IntN(12); {
		case n == 0:
			return fields.Nothing()
		case n == 1:
			return fields.Everything()
		case n == 2:
			return fields.OneTermNotEqualSelector(field, value)
		case n == 3 && unknown:
			return fields.OneTermEqualSelector("unknown", value)
		}
		return fields.OneTermEqualSelector(field, value)
	}
	switch random.IntN(3) {
	case 0:
		r.opts.FieldSelector = term(true)
	case 1:
		and := []fields.Selector{term(true), term(false), term(false)}
		r.opts.FieldSelector = fields.AndSelectors(and[:random.IntN(len(and)+1)]...)
	}
	return r
}

// of asks rd for an object like example, or for a list of them. Of a limited list the answer is how
// many there are, since the order of objects is not defined.
func (r read) of(t *testing.T, rd client.Reader, example client.Object) (answer string) {
	defer func() {
		if p := recover(); p != nil {
			answer = fmt.Sprint("a panic: ", p)
		}
	}()
	if r.key.Name != "" {
		err := rd.Get(t.Context(), r.key, example)
		return fmt.Sprint(example.GetNamespace(), "/", example.GetName(), " ",
			example.GetObjectKind().GroupVersionKind().Kind, " ", apierrors.IsNotFound(err), " ", err)
	}
	list := listOf(example)
	err := rd.List(t.Context(), list, &r.opts)
	var got []string
	rig.OK(t, meta.EachListItem(list, func(o runtime.Object) error {
		item := o.(client.Object)
		got = append(got, item.GetNamespace()+"/"+item.GetName()+" "+item.GetObjectKind().GroupVersionKind().Kind)
		return nil
	}))
	slices.Sort(got)
	if r.opts.Limit > 0 {
		got = []string{fmt.Sprint(len(got))}
	}
	return fmt.Sprint(got, " ", list.GetContinue(), " ", list.GetRemainingItemCount() != nil, " ", err != nil)
}

func listOf(example client.Object) client.ObjectList {
	if _, ok := example.(*corev1.Node); ok {
		return &corev1.NodeList{}
	}
	return listLike(example)
}
