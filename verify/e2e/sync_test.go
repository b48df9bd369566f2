package e2e_test

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/verify/e2e/internal/servers"
)

// TestEveryWire follows ConfigMaps and Pods over every wire with every way to list, through
// creations, updates, deletions and a recreation.
func TestEveryWire(t *testing.T) {
	on(t, func(t *testing.T, kind servers.Kind) {
		const namespace, objects, pageSize = "every-wire", 30, 7
		s, r := shared(t, kind)
		for i := range objects {
			create(t, r, collection("configmaps", namespace), configMap(namespace, fmt.Sprintf("o-%02d", i), "a"))
			create(t, r, collection("pods", namespace), pod(namespace, fmt.Sprintf("o-%02d", i), "node", "a"))
		}
		var maps []*follower[*corev1.ConfigMap]
		var podFollowers []*follower[*corev1.Pod]
		for _, w := range wires {
			for _, mode := range []lw.ListMode{lw.ListAuto, lw.ListStream, lw.ListPages, lw.ListWhole} {
				opts := followOptions{Options: lw.Options{Name: w.name + "-" + string(mode), List: mode, PageSize: pageSize}}
				c := newClient(t, s, w)
				src, path := configMaps(t, c, namespace)
				maps = append(maps, follow(t, c, path, src, opts))
				c = newClient(t, s, w)
				podSrc, path := pods(t, c, namespace)
				podFollowers = append(podFollowers, follow(t, c, path, podSrc, opts))
			}
		}
		inStep(t, r, maps...)
		inStep(t, r, podFollowers...)

		for _, resource := range []string{"configmaps", "pods"} {
			path := collection(resource, namespace)
			made := func(name, value string) object {
				if resource == "pods" {
					return pod(namespace, name, "node", value)
				}
				return configMap(namespace, name, value)
			}
			create(t, r, path, made("new", "b"))
			for i := range 5 {
				merge(t, r, fmt.Sprintf("%s/o-%02d", path, i), object{"metadata": object{"labels": object{"value": "c"}}})
			}
			remove(t, r, path+"/o-05")
			remove(t, r, path+"/o-06")
			create(t, r, path, made("o-06", "again"))
		}
		inStep(t, r, maps...)
		inStep(t, r, podFollowers...)
		for _, f := range maps {
			checkWire(t, f, pageSize, objects)
			f.called(objects+2, 5, 2)
		}
		for _, f := range podFollowers {
			checkWire(t, f, pageSize, objects)
			f.called(objects+2, 7, 2) // a pod is marked before it is deleted
		}
	}, servers.Kinds...)
}

// checkWire checks that the requests were what the follower's wire and mode say: one list of the
// right kind, one watch, in the right encoding.
func checkWire[T lw.Object](t *testing.T, f *follower[T], pageSize, objects int) {
	t.Helper()
	want := map[string]int{verbWatch: 1}
	mode := f.opts.List
	switch mode {
	case lw.ListAuto, lw.ListStream:
		mode, want = lw.ListStream, map[string]int{verbStream: 1}
	case lw.ListPages:
		want[verbList], want[verbPage] = 1, (objects-1)/pageSize
	case lw.ListWhole:
		want[verbList] = 1
	}
	got := map[string]int{}
	for _, req := range f.client.all() {
		got[req.verb]++
		w := f.client.wire
		http1 := w.http1 || w.webSocket && (req.verb == verbWatch || req.verb == verbStream)
		if strings.Contains(req.media, "protobuf") != w.protobuf ||
			strings.Contains(req.media, "cbor") != w.cbor || (req.proto == "HTTP/1.1") != http1 {
			t.Errorf("%s: answer is %s over %s", f.opts.Name, req.media, req.proto)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s: requests (-want +got):\n%s", f.opts.Name, diff)
	}
	if s := f.Status(); s.Mode != mode {
		t.Errorf("%s: status says that the list was %v", f.opts.Name, s.Mode)
	}
	for _, err := range f.errs.all() {
		t.Errorf("%s: %v", f.opts.Name, err)
	}
}

// TestSelectors follows what a label selector and a field selector let through, while objects come
// into sight and leave it.
func TestSelectors(t *testing.T) {
	on(t, func(t *testing.T, kind servers.Kind) {
		const namespace, other = "selectors", "selectors-2"
		s, r := shared(t, kind)
		mine := func(node string) string { return "spec.nodeName=" + node }
		for i := range 6 {
			for _, ns := range []string{namespace, other} {
				create(t, r, collection("pods", ns), pod(ns, fmt.Sprintf("p-%d", i), fmt.Sprintf("sel-%d", i%2),
					fmt.Sprintf("sel-%d", i%3)))
			}
		}
		for _, q := range []struct{ name, namespace, labels, fields string }{
			{"labels", namespace, "value=sel-1", ""},
			{"fields", namespace, "", mine("sel-1")},
			{"both", namespace, "value in (sel-0,sel-2)", mine("sel-0")},
			{"labels of all namespaces", "", "value=sel-1", ""},
			{"fields of all namespaces", "", "", mine("sel-1")},
		} {
			t.Run(q.name, func(t *testing.T) {
				narrow := func(opts *metav1.ListOptions) { opts.LabelSelector, opts.FieldSelector = q.labels, q.fields }
				values := url.Values{}
				if q.labels != "" {
					values.Set("labelSelector", q.labels)
				}
				if q.fields != "" {
					values.Set("fieldSelector", q.fields)
				}
				path := collection("pods", q.namespace) + "?" + values.Encode()
				var all []*follower[*corev1.Pod]
				for _, w := range faultWires {
					c := newClient(t, s, w)
					src := source(t, c, path, func(set kubernetes.Interface) lw.Source[*corev1.Pod] {
						return lw.FromClient(set.CoreV1().Pods(q.namespace), narrow)
					})
					all = append(all, follow(t, c, path, src, followOptions{}))
					c = newClient(t, s, w)
					whole, _ := pods(t, c, q.namespace)
					all = append(all, follow(t, c, path, lw.WithListOptions(whole, narrow),
						followOptions{Options: lw.Options{List: lw.ListPages}}))
				}
				inStep(t, r, all...)
				before := all[0].Store().Len()
				if before == 0 {
					t.Fatal("the selector lets nothing through")
				}
				// Out of sight, and back as they were; the node of a pod cannot change.
				for _, value := range []string{"elsewhere", "sel-1", "sel-0", "sel-%d"} {
					for i := range 6 {
						label := strings.Replace(value, "%d", fmt.Sprint(i%3), 1)
						merge(t, r, fmt.Sprintf("%s/p-%d", collection("pods", namespace), i),
							object{"metadata": object{"labels": object{"value": label}}})
					}
					inStep(t, r, all...)
				}
				for _, f := range all {
					f.same(r)
					if got := f.Store().Len(); got != before {
						t.Errorf("%s: %d objects at the end, %d at the start", f.name(), got, before)
					}
					if _, _, deletes := f.calls(); q.labels != "" && deletes == 0 {
						t.Errorf("%s: no object left the selector", f.name())
					}
					for _, err := range f.errs.all() {
						t.Errorf("%s: %v", f.name(), err)
					}
				}
			})
		}
	}, servers.Kinds...)
}

// TestReadYourWrites waits for the version of each write, and then has to find it in the store.
func TestReadYourWrites(t *testing.T) {
	on(t, func(t *testing.T, kind servers.Kind) {
		const namespace = "read-your-writes"
		s, r := shared(t, kind)
		path := collection("configmaps", namespace)
		all := followConfigMaps(t, s, namespace, followOptions{}, wires...)
		key := lw.Key{Namespace: namespace, Name: "o"}
		for i := range 30 {
			var written *servers.Object
			switch i % 3 {
			case 0:
				written = create(t, r, path, configMap(namespace, "o", fmt.Sprint(i)))
			case 1:
				written = update(t, r, path+"/o", configMap(namespace, "o", fmt.Sprint(i)))
			case 2:
				remove(t, r, path+"/o")
				_, version, err := r.List(within(t, patience), path)
				if err != nil {
					t.Fatal(err)
				}
				written = &servers.Object{ResourceVersion: version}
			}
			for _, f := range all {
				if i%3 == 2 && kind.Name == servers.Kube.Name {
					// Another writer may have made the list's version. Then no event of this
					// collection has that version.
					continue
				}
				if err := f.WaitForResourceVersion(within(t, patience), written.ResourceVersion); err != nil {
					t.Fatalf("%s: write %d: %v", f.name(), i, err)
				}
				got, ok := f.Store().Get(key)
				if want := i%3 != 2; ok != want {
					t.Fatalf("%s: write %d: Get reports %v", f.name(), i, ok)
				}
				if ok && (got.ResourceVersion != written.ResourceVersion || got.Data["value"] != fmt.Sprint(i)) {
					t.Errorf("%s: write %d: got %s at %s, want version %s", f.name(), i, got.Data, got.ResourceVersion,
						written.ResourceVersion)
				}
			}
		}
		for _, f := range all {
			f.same(r)
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			if err := f.WaitForResourceVersion(ctx, "1000000000"); err == nil {
				t.Errorf("%s: a version of the future is waited for without an error", f.name())
			}
			cancel()
		}
	}, servers.Kinds...)
}

// TestBookmarks lets a collection rest while others are written: a bookmark has to move its
// version, and the next watch begins there.
func TestBookmarks(t *testing.T) {
	on(t, func(t *testing.T, kind servers.Kind) {
		const namespace = "bookmarks"
		s, r := shared(t, kind)
		create(t, r, collection("configmaps", namespace), configMap(namespace, "o", "a"))
		// A server sends a bookmark two seconds before the end of a watch.
		all := followConfigMaps(t, s, namespace, followOptions{Options: lw.Options{WatchTimeout: 4 * time.Second}},
			faultWires...)
		other := createSecret(t, r, namespace)
		for _, f := range all {
			if err := f.WaitForResourceVersion(within(t, patience), other.ResourceVersion); err != nil {
				t.Fatalf("%s: %v", f.name(), err)
			}
			f.requested(1, "watches that began at the bookmark", func(req request) bool {
				return req.verb == verbWatch && !newer(other.ResourceVersion, req.query.Get("resourceVersion"))
			})
			f.same(r)
			f.called(1, 0, 0)
			// A wait for a version that the watch does not tell ends it, at most once in two seconds.
			f.bounded(0, 1+int(time.Since(f.start)/(2*time.Second))+1)
		}
	}, servers.Kinds...)
}
