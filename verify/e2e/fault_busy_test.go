package e2e_test

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/verify/rig"
	"github.com/go-lw/lw/verify/e2e/internal/servers"
)

// TestTooManyInFlight takes all places of the server's max-in-flight filter, which answers 429 with
// Retry-After and a body that is no Status.
func TestTooManyInFlight(t *testing.T) {
	on(t, func(t *testing.T, kind servers.Kind) {
		const namespace = "in-flight"
		s, r := started(t, kind, "--max-requests-inflight=2")
		path := collection("configmaps", namespace)
		create(t, r, path, configMap(namespace, "o", "a"))
		release := occupy(t, s, servers.AdminToken, collection("secrets", ""), 4)
		rig.Until(t, patience, func() string {
			if _, err := r.Get(within(t, patience), path); !hasCode(err, 429) {
				return fmt.Sprintf("a plain list: %v, want 429", err)
			}
			return ""
		})
		// The filter lets watches through, and so streamed lists.
		streams := startConfigMaps(t, s, namespace, followOptions{Options: lw.Options{List: lw.ListStream}}, faultWires...)
		for _, f := range streams {
			f.synced()
		}
		var all []*follower[*corev1.ConfigMap]
		all = append(all, startConfigMaps(t, s, namespace, followOptions{Options: lw.Options{List: lw.ListPages}},
			faultWires...)...)
		refused := isStatus(429)
		held := 0
		for _, f := range all {
			// On a busy machine a list may come in between two of those that occupy the server.
			rig.Until(t, patience, func() string {
				if n := f.client.count(refused); n < 3 && !f.Status().Synced {
					return fmt.Sprintf("%s: %d answers of 429, want 3", f.name(), n)
				}
				return ""
			})
			// client-go's client repeats such a request by itself, up to ten times.
			if st := f.Status(); !st.Synced {
				held++
				if !f.client.wire.clientset {
					f.told("429", apierrors.IsTooManyRequests)
					if !apierrors.IsTooManyRequests(st.Err) {
						t.Errorf("%s: status does not say why there is nothing: %+v", f.name(), st)
					}
				}
			}
			var last request
			for _, req := range f.client.all() {
				if refused(last) && req.at.Sub(last.at) < time.Second {
					t.Errorf("%s: a request %v after the last, before the Retry-After of a second", f.name(), req.at.Sub(last.at))
				}
				last = req
			}
		}
		if held == 0 {
			t.Error("all lists have come through")
		}
		release()
		for _, f := range append(all, streams...) {
			f.synced()
			f.same(r)
			f.paced()
		}
	}, servers.Generic)
}

// occupy keeps n requests to path running: lists of a version of the future, which block for 3 s
// each.
func occupy(t testing.TB, s *servers.Server, token, path string, n int) (release func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	for range n {
		running.Go(func() {
			r := s.Reader(token)
			defer r.Close()
			for ctx.Err() == nil {
				_, err := r.Get(ctx, path+"?resourceVersion=1000000000")
				if hasCode(err, 429) {
					time.Sleep(5 * time.Millisecond)
				}
			}
		})
	}
	release = sync.OnceFunc(func() {
		cancel()
		running.Wait()
	})
	t.Cleanup(release)
	return release
}

// TestStorageInitializing restarts a server with so many objects that its watch cache takes a while
// to fill: until then it answers lists and watches with 429.
func TestStorageInitializing(t *testing.T) {
	on(t, func(t *testing.T, kind servers.Kind) {
		const namespace, objects = "initializing", 20_000
		s, r := started(t, kind)
		seed(t, s, namespace, objects, 300)
		path := collection("configmaps", namespace)
		for round := 1; ; round++ {
			s.KillAPI()
			rig.OK(t, s.SpawnAPI())
			rig.Until(t, patience, func() string {
				_, err := r.Get(within(t, patience), path+"?resourceVersion=0&limit=1&labelSelector=no%3Dsuch")
				if hasCode(err, 429) || err == nil {
					return ""
				}
				return fmt.Sprint("a plain list: ", err)
			})
			all := startConfigMaps(t, s, namespace, followOptions{}, faultWires...)
			rig.OK(t, s.AwaitAPI(within(t, patience)))
			seen := 0
			for _, f := range all {
				f.synced()
				if got := f.Store().Len(); got != objects {
					t.Errorf("%s: %d objects after the first sync, want %d", f.name(), got, objects)
				}
				n := f.client.count(isStatus(429))
				seen += n
				if n > 0 && !f.client.wire.clientset {
					f.told("429", apierrors.IsTooManyRequests)
				}
				f.paced()
				f.bounded(1, 3+n)
			}
			if seen >= 2 {
				create(t, r, path, configMap(namespace, "o", "a"))
				inStep(t, r, all...)
				return
			}
			if round == 5 {
				t.Fatal("the informers came too late for a 429 in each of 5 restarts")
			}
			t.Log("restart ", strconv.Itoa(round), ": the informers came too late for a 429")
			for _, f := range all {
				f.stop()
			}
		}
	}, servers.Generic)
}
