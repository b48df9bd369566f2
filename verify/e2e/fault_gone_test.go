package e2e_test

import (
	"fmt"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/verify/rig"
	"github.com/go-lw/lw/verify/e2e/internal/servers"
)

// uncached makes the server read ConfigMaps from etcd for each request. So a version that etcd has
// compacted expires at once.
const uncached = "--watch-cache-sizes=configmaps#0"

// TestExpiredWatch compacts the version that watches are about to be resumed from.
func TestExpiredWatch(t *testing.T) {
	on(t, func(t *testing.T, kind servers.Kind) {
		const namespace = "expired-watch"
		s, r := started(t, kind, uncached)
		path := collection("configmaps", namespace)
		create(t, r, path, configMap(namespace, "o", "a"))
		// A watch of a second: no bookmark moves its version, and it is resumed soon.
		all := followConfigMaps(t, s, namespace, followOptions{Options: lw.Options{WatchTimeout: time.Second}}, faultWires...)
		version := all[0].Status().ResourceVersion
		for range 2 { // etcd keeps the revision that it compacts at
			createSecret(t, r, namespace)
		}
		rig.Must[int64](t)(s.Compact(within(t, patience)))
		if code := watchError(t, r, path+"?watch=1&timeoutSeconds=5&resourceVersion="+version); code != 410 {
			t.Errorf("a plain watch from version %s ended with %d, want 410", version, code)
		}
		for _, f := range all {
			f.told("410", isExpired)
			f.same(r)
			f.called(1, 0, 0) // a list of what was known is not told
		}
		create(t, r, path, configMap(namespace, "p", "a"))
		for _, f := range all {
			f.same(r)
			f.paced()
			f.bounded(1, 5+int(time.Since(f.start)/time.Second))
		}
	}, servers.Generic)
}

// TestExpiredPages compacts the version of a list between its pages, once and then twice in a row:
// then the list has to be asked for as a whole.
func TestExpiredPages(t *testing.T) {
	on(t, func(t *testing.T, kind servers.Kind) {
		const namespace, objects, pageSize = "expired-pages", 50, 10
		s, r := started(t, kind, uncached)
		seed(t, s, namespace, objects, 10)
		for _, w := range faultWires {
			for times := 1; times <= 2; times++ {
				client := newClient(t, s, w)
				src, path := configMaps(t, client, namespace)
				expire := func() {
					createSecret(t, r, namespace)
					if _, err := s.Compact(within(t, patience)); err != nil {
						t.Error(err)
					}
				}
				client.after(verbList, -1, func() {
					expire()
					if times == 2 {
						client.after(verbList, -1, expire)
					}
				})
				f := follow(t, client, path, src, followOptions{Options: lw.Options{List: lw.ListPages, PageSize: pageSize}})
				f.synced()
				f.same(r)
				if n := client.count(isStatus(410)); n != times {
					t.Errorf("%s: %d pages were answered with 410, want %d", f.name(), n, times)
				}
				if n := len(f.errs.all()); n != times || !f.errs.has(isExpired) {
					t.Errorf("%s: OnError was told %d times, want %d:\n%v", f.name(), n, times, f.errs)
				}
				var lists []string
				for _, req := range client.all() {
					if req.verb == verbList {
						lists = append(lists, req.query.Get("limit"))
					}
				}
				want := []string{"10", "10"}
				if times == 2 {
					want = append(want, "")
				}
				if diff := cmp.Diff(want, lists); diff != "" {
					t.Errorf("%s: limits of the lists (-want +got):\n%s", f.name(), diff)
				}
				if got := f.Store().Len(); got != objects {
					t.Errorf("%s: %d objects, want %d", f.name(), got, objects)
				}
				f.stop()
			}
		}
	}, servers.Generic)
}

// TestTooLargeVersion asks the server for a version that it has not reached yet, until it has.
func TestTooLargeVersion(t *testing.T) {
	on(t, func(t *testing.T, kind servers.Kind) {
		const namespace = "too-large"
		s, r := started(t, kind)
		path := collection("configmaps", namespace)
		at := rig.Must[int](t)(strconv.Atoi(create(t, r, path, configMap(namespace, "o", "a")).ResourceVersion))
		future := fmt.Sprint(at + 20)
		if _, err := r.Get(within(t, patience), path+"?resourceVersion="+future); !hasCode(err, 504) {
			t.Errorf("a plain list at version %s: %v, want 504", future, err)
		}
		for _, mode := range []lw.ListMode{lw.ListStream, lw.ListWhole} {
			var ahead atomic.Bool
			ahead.Store(true)
			var all []*follower[*corev1.ConfigMap]
			for _, w := range faultWires {
				client := newClient(t, s, w)
				src, path := configMaps(t, client, namespace)
				late := lw.WithListOptions(src, func(opts *metav1.ListOptions) {
					first := !opts.Watch || opts.SendInitialEvents != nil
					if opts.ResourceVersion == "" && first && ahead.Load() {
						opts.ResourceVersion = future
						opts.ResourceVersionMatch = metav1.ResourceVersionMatchNotOlderThan
					}
				})
				all = append(all, follow(t, client, path, late, followOptions{Options: lw.Options{List: mode}}))
			}
			for _, f := range all {
				rig.Until(t, patience, func() string {
					if f.Status().Failures == 0 && f.client.count(isStatus(504)) == 0 {
						return f.name() + ": no list of the future has failed"
					}
					return ""
				})
				if st := f.Status(); st.Synced {
					t.Errorf("%s: status hides that there is nothing yet: %+v", f.name(), st)
				}
				// client-go's client repeats a list that met a 504 by itself, up to ten times.
				if mode == lw.ListWhole && f.client.wire.clientset {
					continue
				}
				f.told("504", func(err error) bool {
					return apierrors.IsTimeout(err) && apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge)
				})
				f.unsynced(apierrors.IsTimeout)
			}
			for i := range 20 {
				update(t, r, path+"/o", configMap(namespace, "o", fmt.Sprintf("%v-%d", mode, i)))
			}
			for _, f := range all {
				f.synced()
				f.same(r)
				f.paced()
				f.stop()
			}
			at += 20
			future = fmt.Sprint(at + 20)
		}
	}, servers.Generic)
}
