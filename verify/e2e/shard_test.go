package e2e_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/sharding"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/verify/rig"
	"github.com/go-lw/lw/verify/e2e/internal/servers"
)

const shardGate = "--feature-gates=ShardedListAndWatch="

// shardWires are the wires and the ways to list with which each part is followed.
var shardWires = []struct {
	wire
	lw.ListMode
}{{wires[0], lw.ListAuto}, {wires[1], lw.ListPages}, {wires[4], lw.ListAuto}, {wires[5], lw.ListWhole}}

// inShard reports whether a UID is in part i of 3. It uses apimachinery's hash, and bounds that are
// written down here.
func inShard(i int, uid string) bool {
	hash := "0x" + sharding.HashField(uid)
	bounds := []string{"0x0000000000000000", "0x5555555555555555", "0xaaaaaaaaaaaaaaaa", "0x10000000000000000"}
	return !sharding.HexLess(hash, bounds[i]) && sharding.HexLess(hash, bounds[i+1])
}

// A sifter counts the objects of other parts that a server sends for a part.
type sifter struct {
	lw.Source[*corev1.ConfigMap]
	part          int
	ours, foreign atomic.Int64
	echoed        atomic.Pointer[metav1.ShardInfo] // of the last list
}

func (s *sifter) count(uid types.UID) {
	if inShard(s.part, string(uid)) {
		s.ours.Add(1)
	} else {
		s.foreign.Add(1)
	}
}

func (s *sifter) List(ctx context.Context, opts metav1.ListOptions,
	yield func(*corev1.ConfigMap, error) error) (metav1.ListMeta, error) {
	m, err := s.Source.List(ctx, opts, func(obj *corev1.ConfigMap, err error) error {
		if err == nil {
			s.count(obj.UID)
		}
		return yield(obj, err)
	})
	if err == nil {
		s.echoed.Store(m.ShardInfo)
	}
	return m, err
}

func (s *sifter) Watch(ctx context.Context, opts metav1.ListOptions,
	yield func(lw.WatchEvent[*corev1.ConfigMap]) error) error {
	return s.Source.Watch(ctx, opts, func(ev lw.WatchEvent[*corev1.ConfigMap]) error {
		if ev.Type != watch.Bookmark && ev.Err == nil {
			s.count(ev.Object.UID)
		}
		return yield(ev)
	})
}

// TestShards follows three parts of a collection, each over every wire, while objects come and go.
// The parts are disjoint and complete, whether the server selects or not: it does at first, and
// does not after it was started again without the feature gate.
func TestShards(t *testing.T) {
	on(t, func(t *testing.T, kind servers.Kind) {
		const namespace, objects = "shards", 60
		s, r := started(t, kind, shardGate+"true")
		for i := range objects {
			create(t, r, collection("configmaps", namespace), configMap(namespace, fmt.Sprintf("o-%02d", i), "a"))
		}
		var parts []*follower[*corev1.ConfigMap]
		var sifters []*sifter
		for _, w := range shardWires {
			for part := range 3 {
				c := newClient(t, s, w.wire)
				src, path := configMaps(t, c, namespace)
				sift := &sifter{Source: src, part: part}
				opts := followOptions{
					Options: lw.Options{Name: fmt.Sprintf("%s-%s-%d", w.name, w.ListMode, part), List: w.ListMode, PageSize: 7},
					of:      func(o *servers.Object) bool { return inShard(part, o.UID) },
				}
				sifters = append(sifters, sift)
				parts = append(parts, follow(t, c, path, lw.Shard[*corev1.ConfigMap](sift, part, 3), opts))
			}
		}
		for _, f := range parts {
			f.synced()
		}
		comeAndGo := func() {
			t.Helper()
			churn := startChurn(t, s, namespace)
			churn.more(t, 150)
			churn.stop()
			inStep(t, r, parts...)
			mustBeComplete(t, r, namespace, parts)
		}

		comeAndGo()
		for i, sift := range sifters {
			if ours, foreign := sift.ours.Load(), sift.foreign.Load(); foreign > 0 || ours == 0 {
				t.Errorf("%s: the server has sent %d objects of the part and %d others", parts[i].opts.Name, ours, foreign)
			}
			mustEcho(t, sift, true)
		}

		s.KillAPI()
		s.Args = []string{shardGate + "false"}
		rig.OK(t, s.StartAPI(within(t, patience)))
		comeAndGo()
		for i, sift := range sifters {
			if sift.foreign.Load() == 0 {
				t.Errorf("%s: the server that should not select has sent no object of another part", parts[i].opts.Name)
			}
			mustEcho(t, sift, false)
		}
	}, servers.Generic)
}

// mustBeComplete checks that the parts over each wire have each object of the server once, and that
// none is empty.
func mustBeComplete(t *testing.T, r *servers.Reader, namespace string, parts []*follower[*corev1.ConfigMap]) {
	t.Helper()
	want, _, err := r.List(within(t, patience), collection("configmaps", namespace))
	if err != nil {
		t.Fatal(err)
	}
	for ; len(parts) > 0; parts = parts[3:] {
		n := map[string]int{}
		for _, f := range parts[:3] {
			if f.Store().Len() == 0 {
				t.Errorf("%s is empty", f.opts.Name)
			}
			for obj := range f.Store().All() {
				n[keyString(obj)]++
			}
		}
		if len(n) != len(want) {
			t.Errorf("%s: the parts have %d of %d objects", parts[0].name(), len(n), len(want))
		}
		for key, n := range n {
			if n > 1 || want[key] == nil {
				t.Errorf("%s: %s is in %d parts, and on the server: %t", parts[0].name(), key, n, want[key] != nil)
			}
		}
	}
}

// mustEcho checks that a list of a part comes with the selector if the server selects, and without
// if it does not.
func mustEcho(t *testing.T, sift *sifter, selects bool) {
	t.Helper()
	rig.Must[metav1.ListMeta](t)(lw.Shard[*corev1.ConfigMap](sift, sift.part, 3).List(within(t, patience),
		metav1.ListOptions{Limit: 1},
		func(*corev1.ConfigMap, error) error { return nil }))
	switch echoed := sift.echoed.Load(); {
	case !selects && echoed != nil:
		t.Errorf("a server that does not select says that it has selected by %s", echoed.Selector)
	case selects && (echoed == nil || echoed.Selector != shardSelector(sift.part)):
		t.Errorf("the server says that it has selected by %v, want %s", echoed, shardSelector(sift.part))
	}
}

func shardSelector(i int) string {
	return []string{
		"shardRange(object.metadata.uid, '0x0000000000000000', '0x5555555555555555')",
		"shardRange(object.metadata.uid, '0x5555555555555555', '0xaaaaaaaaaaaaaaaa')",
		"shardRange(object.metadata.uid, '0xaaaaaaaaaaaaaaaa', '0x10000000000000000')",
	}[i]
}
