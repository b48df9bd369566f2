package e2e_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	crclient "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/go-lw/lw/controllerruntime"
	"github.com/go-lw/lw/internal/verify/rig"
	"github.com/go-lw/lw/verify/e2e/internal/servers"
)

// A teller is what a manager with TellWrites reads and writes with: its cache and its client. It
// knows what it has read and was told of each key.
type teller struct {
	t         *testing.T
	name      string
	namespace string
	cache     cache.Cache
	client    crclient.Client
	rng       *rand.Rand
	newest    map[string]uint64 // the highest version of a key that was read or told, of objects that were there
	writes    *atomic.Int64
	failed    int
}

func newTeller(t *testing.T, s *servers.Server, name, namespace string, writes *atomic.Int64) *teller {
	options := controllerruntime.Options{TellWrites: true}
	config := s.Config()
	config.QPS = -1
	c := rig.Must[cache.Cache](t)(controllerruntime.NewCacheWith(options)(config, cache.Options{}))
	client := rig.Must[crclient.Client](t)(controllerruntime.NewClient(options)(config,
		crclient.Options{Cache: &crclient.CacheOptions{Reader: c}}))
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- c.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	c.WaitForCacheSync(ctx)
	if _, err := c.GetInformer(within(t, patience), &corev1.ConfigMap{}); err != nil {
		t.Fatal(err)
	}
	return &teller{t: t, name: name, namespace: namespace, cache: c, client: client, writes: writes,
		newest: map[string]uint64{},
		rng:    rand.New(rand.NewPCG(uint64(len(name)), uint64(name[0])))}
}

// read reads a key from the cache, and fails if it has gone back behind what was read or told of
// it.
func (p *teller) read(key crclient.ObjectKey) *corev1.ConfigMap {
	obj := &corev1.ConfigMap{}
	if err := p.client.Get(within(p.t, patience), key, obj); apierrors.IsNotFound(err) {
		return nil
	} else if err != nil {
		p.t.Error(err)
		return nil
	}
	if at := versionOf(obj); at < p.newest[key.Name] {
		p.t.Errorf("%s reads %s at %d, after %d", p.name, key.Name, at, p.newest[key.Name])
	}
	p.newest[key.Name] = max(p.newest[key.Name], versionOf(obj))
	return obj
}

func versionOf(obj *corev1.ConfigMap) uint64 {
	n, err := strconv.ParseUint(obj.ResourceVersion, 10, 64)
	if err != nil {
		panic(err)
	}
	return n
}

// write creates, updates or deletes an object of a key, and reads it. Nobody else writes own keys:
// what the server has answered is read there, and no other state.
func (p *teller) write(key crclient.ObjectKey, own bool) {
	ctx := within(p.t, 5*time.Second)
	obj := p.read(key)
	var err error
	var uid types.UID
	want := ""
	switch {
	case obj == nil:
		obj = &corev1.ConfigMap{}
		obj.Namespace, obj.Name = key.Namespace, key.Name
		err = p.client.Create(ctx, obj)
		want = obj.ResourceVersion
	case p.rng.IntN(4) == 0:
		uid = obj.UID
		err = p.client.Delete(ctx, obj, crclient.Preconditions{UID: &obj.UID, ResourceVersion: &obj.ResourceVersion})
	default:
		obj.Data = map[string]string{"by": p.name, "n": fmt.Sprint(p.writes.Load())}
		err = p.client.Update(ctx, obj)
		want = obj.ResourceVersion
	}
	if err != nil { // the server is away, or somebody else was faster
		p.failed++
		time.Sleep(10 * time.Millisecond)
		return
	}
	p.writes.Add(1)
	if want != "" {
		p.newest[key.Name] = max(p.newest[key.Name], versionOf(obj))
	}
	got := p.read(key)
	switch {
	case !own:
		if got != nil && got.UID == uid {
			p.t.Errorf("%s reads %s, which it has deleted", p.name, key.Name)
		}
	case want == "" && got != nil, want != "" && (got == nil || got.ResourceVersion != want):
		p.t.Errorf("%s reads %v of its own %s, want version %q", p.name, got, key.Name, want)
	}
}

// TestToldWrites has two managers write 3,000 times, to keys of their own and to those of both,
// while the server is killed. None reads of a key what is older than what it was told or has read,
// and in the end both have what the server has.
func TestToldWrites(t *testing.T) {
	on(t, func(t *testing.T, kind servers.Kind) {
		const namespace, writes = "told", 3000
		s, r := started(t, kind)
		var written atomic.Int64
		var both sync.WaitGroup
		tellers := []*teller{newTeller(t, s, "one", namespace, &written), newTeller(t, s, "another", namespace, &written)}
		for _, p := range tellers {
			both.Go(func() {
				for written.Load() < writes && !t.Failed() {
					name, own := fmt.Sprintf("shared-%d", p.rng.IntN(10)), p.rng.IntN(2) == 0
					if own {
						name = fmt.Sprintf("%s-%d", p.name, p.rng.IntN(10))
					}
					p.write(crclient.ObjectKey{Namespace: namespace, Name: name}, own)
				}
			})
		}
		outages := 5
		if kind.Name == servers.Kube.Name {
			outages = 2 // it takes seconds to start
		}
		for i := range outages {
			rig.Until(t, 5*patience, func() string {
				if n := written.Load(); n < int64(writes*(i+1)/(outages+1)) && !t.Failed() {
					return fmt.Sprintf("%d writes", n)
				}
				return ""
			})
			s.KillAPI()
			rig.OK(t, s.StartAPI(within(t, patience)))
		}
		both.Wait()
		objs, _, err := r.List(within(t, patience), collection("configmaps", namespace))
		if err != nil {
			t.Fatal(err)
		}
		want := map[string]string{}
		for _, o := range objs {
			want[o.Name] = o.ResourceVersion
		}
		for _, p := range tellers {
			rig.Until(t, patience, func() string {
				var list corev1.ConfigMapList
				if err := p.cache.List(within(t, patience), &list, crclient.InNamespace(namespace)); err != nil {
					return err.Error()
				}
				got := map[string]string{}
				for _, o := range list.Items {
					got[o.Name] = o.ResourceVersion
				}
				return cmp.Diff(want, got)
			})
			if p.failed == 0 {
				t.Errorf("%s: no write failed: the server was never away", p.name)
			}
		}
		t.Logf("%d writes, %d failed", written.Load(), tellers[0].failed+tellers[1].failed)
	}, servers.Kinds...)
}
